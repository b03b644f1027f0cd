//! Looks at what a gate asks for, and has its command run.

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

/// Where gates look. It borrows nothing of the office, which can be written to while they run.
#[derive(Debug)]
pub struct Scene<'a> {
    office: PathBuf,
    config: PathBuf,
    blobs: Option<Blobs>,
    /// Those of the caller: what a message names is looked at only where they are open.
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

    /// The open folder an artifact is in, and its path there. A copy is in the office's own store, under its digest.
    fn place(&self, artifact: &Artifact) -> Result<(Arc<Worktree>, PathBuf), String> {
        if artifact.state != ArtifactState::Attached {
            return Ok((self.folder(artifact)?, PathBuf::from(&artifact.path)));
        }
        let blob = self.blobs.as_ref().zip(artifact.digest.as_ref()).map(|(blobs, digest)| blobs.path(digest));
        let blob = blob.ok_or_else(|| "its copy is not here".to_owned())?;
        let (folder, name) = (blob.parent().unwrap_or(Path::new(".")), blob.file_name().unwrap_or_default());
        let folder = Worktree::open(folder).map_err(|_| "its copy is not here".to_owned())?;
        Ok((Arc::new(folder), name.into()))
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

/// A command a gate wants run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// With every template replaced.
    pub program: Program,
    pub folder: PathBuf,
    pub variables: Vec<(&'static str, String)>,
    pub timeout_ms: i64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Why it did not pass.
    pub found: Result<(), String>,
    pub output: String,
    pub duration_ms: u64,
}

/// Runs the commands of gates. The heart starts no processes.
pub trait Runner {
    /// An error ends the whole run: nothing more can be said about the message. A command that cannot be started, is
    /// stopped or fails is no error but a finding.
    fn run(&mut self, errand: &Errand) -> Result<Ran, Error>;

    /// Told before each file is looked at: reading many large ones takes its time too.
    fn goes_on(&mut self) -> Result<(), Error>;
}

/// Runs the gates that apply to a message, or asks of its artifacts what can be asked of any. Changes nothing.
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

/// Of a message without gates: are its artifacts there, and still what was sent?
fn unchanged(scene: &Scene<'_>, message: &MessageView) -> Option<GateReport> {
    let gate = Gate::of_artifacts();
    let mut looking = Looking { scene, gate: &gate, message, checks: Vec::new() };
    for artifact in &message.artifacts {
        // Of what was only announced nothing was recorded that could have changed.
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
            let found = Err("the message names no artifact".to_owned());
            self.checks.push(CheckReport::new("exists", None, found));
        }
        let mut sound = Vec::new();
        for artifact in &self.message.artifacts {
            runner.goes_on()?;
            if gate.asks_of_artifacts() && self.artifact(artifact, gate) {
                sound.push(artifact);
            }
        }
        let Some(program) = &gate.program else { return Ok(()) };
        if !may_run {
            let found = Err(format!("not run: {} is not trusted here (poste trust)", discover::CONFIG_FILE));
            self.checks.push(CheckReport::new(program.key(), None, found));
        } else if program.is_for_each_artifact() {
            for artifact in sound {
                self.command(program, Some(artifact), runner)?;
            }
        } else if self.checks.iter().all(|check| check.passed) {
            self.command(program, None, runner)?;
        } else {
            let found = Err("not run: what was checked before it failed".to_owned());
            self.checks.push(CheckReport::new(program.key(), None, found));
        }
        Ok(())
    }

    /// Whether everything asked of one artifact is so.
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
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned()));
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

    /// What the templates stand for. A folder that is not open here has no name: a command would open it.
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

    /// Schemas are looked for below the folder of `poste.toml`, whichever file names them.
    fn schema_base(&self) -> PathBuf {
        self.scene.config.clone()
    }
}

impl Program {
    /// The key of a gate that names it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Words(_) => "command",
            Self::Shell(_) => "shell",
        }
    }

    /// Values in the places of their templates, in one pass: what a value looks like never matters.
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
        Error::Artifact { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

fn same(artifact: &Artifact, seen: Seen) -> Result<(), String> {
    match (artifact.digest, seen.digest) {
        (None, _) => Err("its digest was not recorded: it was to come later".to_owned()),
        (recorded, now) if recorded == now => Ok(()),
        _ => match artifact.size.filter(|size| *size != seen.size) {
            Some(size) => Err(format!("it is not what was sent: {size} bytes then, {} now", seen.size)),
            None => Err("it is not what was sent: other bytes, as many".to_owned()),
        },
    }
}

/// A pattern with a `/` is for the path, one without for the name alone.
fn matches(pattern: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    pattern_of(pattern).is_ok_and(|glob| glob.is_match(if pattern.contains('/') { path } else { name }))
}

/// A pattern for the names of artifacts.
pub fn pattern_of(pattern: &str) -> Result<globset::GlobMatcher, String> {
    let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

/// What is wrong with the schemas of a gate.
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
