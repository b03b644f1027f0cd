//! Runs the checks of a gate, and its command through a [`Runner`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CheckReport, Gate, GateReport, Gates, Program, Report, TEMPLATES, WORKTREE, folder_of};
use crate::error::Error;
use crate::limits;
use crate::log::{Artifact, ArtifactState};
use crate::payload::{self, SchemaSource};
use crate::store::Store;
use crate::store::artifact::{Files, Seen, Worktree};
use crate::store::blobs::Blobs;
use crate::store::discover;
use crate::views::MessageView;

/// The places gates look in. It does not borrow the office, so the office can be written to while gates run.
#[derive(Debug)]
pub struct Scene<'a> {
    office: PathBuf,
    config: PathBuf,
    blobs: Option<Blobs>,
    /// The caller's open folders. Artifacts are only looked at in these.
    files: &'a Files,
}

impl<'a> Scene<'a> {
    pub fn of(store: &Store, files: &'a Files) -> Result<Self, Error> {
        let office = store.path().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))?.to_owned();
        let config = office.with_file_name(discover::CONFIG_FILE);
        Ok(Self { config, office, blobs: store.blobs().cloned(), files })
    }

    pub fn office(&self) -> &Path {
        &self.office
    }

    /// The open folder of an artifact, and its path there. The copy of an attachment is in the office's own store,
    /// under its digest.
    fn place(&self, artifact: &Artifact) -> Result<(Arc<Worktree>, PathBuf), String> {
        if artifact.state != ArtifactState::Attached {
            return Ok((self.folder(artifact)?, PathBuf::from(&artifact.path)));
        }
        let (Some(blobs), Some(digest)) = (&self.blobs, &artifact.digest) else {
            return Err("its copy is missing".to_owned());
        };
        let folder = Worktree::of_blobs(blobs).map_err(|_| "its copy is missing".to_owned())?;
        Ok((Arc::new(folder), digest.to_string().into()))
    }

    /// The folder an artifact was sent from.
    fn folder(&self, artifact: &Artifact) -> Result<Arc<Worktree>, String> {
        let named = artifact.worktree.as_ref().map_or_else(|| folder_of(&self.config), PathBuf::from);
        self.files.folder(&named).ok_or_else(|| {
            let named = named.display();
            format!("its folder {named} is not open here; attach a copy, or check it in a worktree of that repository")
        })
    }
}

/// A command to run for a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// Templates are already filled in.
    pub program: Program,
    pub folder: PathBuf,
    pub variables: Vec<(&'static str, String)>,
    pub timeout_ms: i64,
}

/// The outcome of an [`Errand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The error says why it did not pass.
    pub found: Result<(), String>,
    pub output: String,
    pub duration_ms: u64,
}

/// Runs the commands of gates. This crate never starts a process.
pub trait Runner {
    /// An error aborts the whole run without a verdict. A command that cannot be started, is stopped or fails is a
    /// finding, not an error.
    fn run(&mut self, errand: &Errand) -> Result<Ran, Error>;

    /// Called before each file, because reading many large files takes time too. An error aborts the run.
    fn check_running(&mut self) -> Result<(), Error>;
}

/// Runs the gates that apply to a message. Without any, checks that its artifacts are unchanged. Changes nothing.
pub fn run(scene: &Scene<'_>, gates: &Gates, message: &MessageView, runner: &mut dyn Runner) -> Result<Report, Error> {
    let own = gates.of_message(message);
    let reports = match own.as_slice() {
        [] => unchanged(scene, message).into_iter().collect(),
        own => {
            let mut reports = Vec::with_capacity(own.len());
            for gate in own {
                let mut looking = Looking { scene, gate, message, checks: Vec::new() };
                looking.look(gates.may_run(gate), runner)?;
                reports.push(GateReport::new(gate.name.clone(), looking.checks));
            }
            reports
        }
    };
    Ok(Report::new(message.number, reports))
}

/// For a message without gates: whether its artifacts exist and are unchanged since they were sent.
fn unchanged(scene: &Scene<'_>, message: &MessageView) -> Option<GateReport> {
    let gate = Gate::of_artifacts();
    let mut looking = Looking { scene, gate: &gate, message, checks: Vec::new() };
    for artifact in &message.artifacts {
        // An artifact that was only announced has no recorded digest to compare with.
        let recorded = artifact.digest.is_some();
        looking.artifact(artifact, &Gate { digest: recorded, ..gate.clone() });
    }
    (!message.artifacts.is_empty()).then(|| GateReport::new(gate.name.clone(), looking.checks))
}

struct Looking<'a> {
    scene: &'a Scene<'a>,
    gate: &'a Gate,
    message: &'a MessageView,
    checks: Vec<CheckReport>,
}

impl Looking<'_> {
    fn look(&mut self, may_run: bool, runner: &mut dyn Runner) -> Result<(), Error> {
        let gate = self.gate;
        if let Some(schema) = &gate.payload_schema {
            let found = match &self.message.payload {
                Some(payload) => {
                    payload::check_text(&self.schema_base(), &self.key("payload_schema"), schema, payload.get())
                }
                None if self.message.content_gone => Err("its content is no longer here".to_owned()),
                None => Err("the message has no payload".to_owned()),
            };
            self.checks.push(CheckReport::new("payload_schema", None, found));
        }
        if gate.asks_of_artifacts() && self.message.artifacts.is_empty() {
            let found = Err("the message has no artifacts".to_owned());
            self.checks.push(CheckReport::new("exists", None, found));
        }
        let mut sound = Vec::new();
        for artifact in &self.message.artifacts {
            runner.check_running()?;
            if gate.asks_of_artifacts() && self.artifact(artifact, gate) {
                sound.push(artifact);
            }
        }
        let Some(program) = &gate.program else { return Ok(()) };
        if !may_run {
            let found = Err(format!("not run: {} is not trusted here (poste trust)", gate.source.file()));
            self.checks.push(CheckReport::new(program.key(), None, found));
        } else if program.is_for_each_artifact() {
            for artifact in sound {
                self.command(program, Some(artifact), runner)?;
            }
        } else if self.checks.iter().all(|check| check.passed) {
            self.command(program, None, runner)?;
        } else {
            let found = Err("not run: an earlier check failed".to_owned());
            self.checks.push(CheckReport::new(program.key(), None, found));
        }
        Ok(())
    }

    /// Whether an artifact passes every check.
    fn artifact(&mut self, artifact: &Artifact, gate: &Gate) -> bool {
        let path = artifact.path.as_str();
        let before = self.checks.len();
        let mut say = |check, found| self.checks.push(CheckReport::new(check, Some(path), found));
        let place = self.scene.place(artifact);
        let seen = place
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|(tree, path)| tree.look(path, gate.digest).map_err(|error| reason(&error)));
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                say("exists", Err(why));
                return false;
            }
        };
        if gate.exists {
            say("exists", Ok(()));
        }
        if gate.not_empty {
            say("not_empty", if seen.size == 0 { Err("it is empty (0 bytes)".to_owned()) } else { Ok(()) });
        }
        if let Some(min) = gate.size_min {
            let found = if seen.size < min { Err(format!("it has {} bytes", seen.size)) } else { Ok(()) };
            say("size_min", found);
        }
        if let Some(max) = gate.size_max {
            let found = if seen.size > max { Err(format!("it has {} bytes", seen.size)) } else { Ok(()) };
            say("size_max", found);
        }
        if gate.digest {
            say("digest", same(artifact, seen));
        }
        if let Some(pattern) = &gate.name_matches {
            let found = if matches(pattern, path) { Ok(()) } else { Err(format!("it does not match {pattern}")) };
            say("name_matches", found);
        }
        if let (Some(schema), Ok((tree, path))) = (&gate.artifact_schema, &place) {
            let read = tree.read(path, limits::JSON_ARTIFACT_BYTES_MAX).map_err(|error| reason(&error));
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned()));
            let (base, key) = (self.schema_base(), self.key("artifact_schema"));
            let found = text.and_then(|text| payload::check_text(&base, &key, schema, &text));
            self.checks.push(CheckReport::new("artifact_schema", Some(&artifact.path), found));
        }
        self.checks[before..].iter().all(|check| check.passed)
    }

    fn command(&mut self, program: &Program, of: Option<&Artifact>, runner: &mut dyn Runner) -> Result<(), Error> {
        let folder = folder_of(&self.scene.config);
        let path = of.map(|artifact| artifact.path.as_str());
        let values = match self.values(program, of, &folder) {
            Ok(values) => values,
            Err(why) => {
                self.checks.push(CheckReport::new(program.key(), path, Err(why)));
                return Ok(());
            }
        };
        let errand = Errand {
            program: program.filled(&values),
            folder,
            variables: TEMPLATES.iter().zip(values).map(|((_, variable), value)| (*variable, value)).collect(),
            timeout_ms: self.gate.timeout_ms,
        };
        let ran = runner.run(&errand)?;
        let mut check = CheckReport::new(program.key(), path, ran.found);
        check.output = Some(ran.output).filter(|output| !output.is_empty());
        check.duration_ms = Some(ran.duration_ms);
        self.checks.push(check);
        Ok(())
    }

    /// The values of the templates. A folder that is not open here gets no value, because a command would open it.
    fn values(&self, program: &Program, of: Option<&Artifact>, folder: &Path) -> Result<[String; 3], String> {
        let file = match of.map(|artifact| self.scene.place(artifact)).transpose()? {
            Some((tree, path)) => tree.root().join(path).display().to_string(),
            None => String::new(),
        };
        let sent_from = of.or(self.message.artifacts.first()).filter(|artifact| artifact.worktree.is_some());
        let worktree = match sent_from.map(|artifact| self.scene.folder(artifact)) {
            None => folder.display().to_string(),
            Some(Ok(tree)) => tree.root().display().to_string(),
            Some(Err(_)) if !program.mentions(WORKTREE) => String::new(),
            Some(Err(why)) => return Err(why),
        };
        Ok([file, self.message.number.to_string(), worktree])
    }

    fn key(&self, name: &str) -> String {
        format!("gate {}: {name}", self.gate.name)
    }

    /// Schemas are looked up below the folder of `poste.toml`, whichever file names them.
    fn schema_base(&self) -> PathBuf {
        self.scene.config.clone()
    }
}

impl Program {
    /// The key in the configuration of a gate.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Words(_) => "command",
            Self::Shell(_) => "shell",
        }
    }

    /// Replaces templates by values, in one pass, so a template inside a value is not replaced.
    fn filled(&self, values: &[String; 3]) -> Self {
        match self {
            Self::Shell(line) => Self::Shell(line.clone()),
            Self::Words(words) => Self::Words(words.iter().map(|word| filled(word, values)).collect()),
        }
    }
}

fn filled(word: &str, values: &[String; 3]) -> String {
    let mut left = word;
    let mut filled = String::new();
    while let Some(at) = left.find('{') {
        filled.push_str(&left[..at]);
        left = &left[at..];
        let template = TEMPLATES.iter().zip(values).find(|((template, _), _)| left.starts_with(template));
        match template {
            Some(((template, _), value)) => {
                filled.push_str(value);
                left = &left[template.len()..];
            }
            None => {
                filled.push('{');
                left = &left[1..];
            }
        }
    }
    filled + left
}

fn reason(error: &Error) -> String {
    match error {
        Error::Artifact { fault, .. } => fault.to_string(),
        other => other.to_string(),
    }
}

fn same(artifact: &Artifact, seen: Seen) -> Result<(), String> {
    match (artifact.digest, seen.digest) {
        (None, _) => Err("no digest was recorded: the file was only announced".to_owned()),
        (recorded, now) if recorded == now => Ok(()),
        _ => match artifact.size.filter(|size| *size != seen.size) {
            Some(size) => Err(format!("it changed after it was sent: {size} bytes then, {} now", seen.size)),
            None => Err("it changed after it was sent: same size, different content".to_owned()),
        },
    }
}

/// A pattern with a `/` matches the path, one without only the file name.
fn matches(pattern: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    pattern_of(pattern).is_ok_and(|glob| glob.is_match(if pattern.contains('/') { path } else { name }))
}

/// A pattern for the names of artifacts.
pub fn pattern_of(pattern: &str) -> Result<globset::GlobSet, String> {
    let why = |error: globset::Error| error.kind().to_string();
    let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build().map_err(why)?;
    // A matcher of its own would panic on what is nested too deep.
    globset::GlobSet::builder().add(glob).build().map_err(why)
}

/// Problems of the schemas of a gate.
pub fn schema_problems(config: &Path, gate: &Gate) -> Vec<String> {
    let named = [("payload_schema", &gate.payload_schema), ("artifact_schema", &gate.artifact_schema)];
    let problem = |(name, schema): (&str, &Option<SchemaSource>)| {
        payload::schema_problem(config, &format!("gate {}: {name}", gate.name), schema.as_ref()?)
    };
    named.into_iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_word_whatever_it_is() {
        let values = ["/a b/{number}; $(x)".to_owned(), "7".to_owned(), "/w".to_owned()];
        let words = ["check", "--file={artifact}", "{number}{number}", "{", "{other}", "{worktree}"];
        let program = Program::Words(words.map(str::to_owned).to_vec());
        let expected = ["check", "--file=/a b/{number}; $(x)", "77", "{", "{other}", "/w"];
        assert_eq!(program.filled(&values), Program::Words(expected.map(str::to_owned).to_vec()));
        let shell = Program::Shell("echo {artifact}".to_owned());
        assert_eq!(shell.filled(&values), shell);
    }

    #[test]
    fn a_pattern_is_for_the_name_or_for_the_path() {
        assert!(matches("*.md", "drafts/a.md") && !matches("*.md", "drafts/a.txt"));
        assert!(matches("drafts/*.md", "drafts/a.md") && !matches("drafts/*.md", "drafts/old/a.md"));
        assert!(matches("drafts/**/*.md", "drafts/old/a.md"));
        assert!(pattern_of("[a").is_err());
    }
}
