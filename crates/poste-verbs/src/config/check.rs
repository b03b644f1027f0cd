//! Lists all problems of poste.toml, with line numbers. Not a verb: a file can be checked without an office, and an
//! invalid file may be why the office does not work.

use std::path::{Path, PathBuf};

use poste_config::{ConfigFile, Problem, gate_schema_problems, read_config};
use poste_core::office::Place;
use poste_core::payload::PayloadSchemas;
use poste_core::text::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answered, Error, Result};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Check this file instead of the office's; works without an office
    pub file: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// The files that were read; missing files are not listed.
    pub files: Vec<String>,
    /// The problems that were found.
    pub problems: Vec<FileProblem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileProblem {
    /// The file it is in.
    pub file: String,
    #[serde(flatten)]
    pub problem: Problem,
}

/// Number of problems of each kind.
#[derive(Debug, Default)]
struct Counts {
    schemas: usize,
    gates: usize,
    rules: usize,
}

/// Checks a file that belongs to no office, or else the files of the office at `place`.
pub fn check(place: impl FnOnce() -> Result<Place>, input: &Input) -> Result<Answered<Answer>> {
    match &input.file {
        Some(file) => of_file(file),
        None => of_office(&place()?),
    }
}

fn of_file(file: &Path) -> Result<Answered<Answer>> {
    let (mut answer, mut counts) = (Answer::default(), Counts::default());
    answer.read_rules(file, &mut counts)?;
    Ok(answer.judged(&counts))
}

fn of_office(place: &Place) -> Result<Answered<Answer>> {
    let (mut answer, mut counts) = (Answer::default(), Counts::default());
    let main = place.path.with_file_name(poste_config::FILE);
    answer.read_rules(&main, &mut counts)?;
    answer.read(place.path.join(poste_config::LOCAL_FILE), |text| {
        let (local, mut problems) = poste_config::read_local(text);
        let gates = gate_schema_problems(&main, &local.gates);
        counts.gates += gates.len();
        problems.extend(gates);
        problems
    })?;
    answer.add_gate_problems(place);
    Ok(answer.judged(&counts))
}

impl Answer {
    fn read_rules(&mut self, path: &Path, counts: &mut Counts) -> Result {
        self.read(path.to_owned(), |text| {
            let (file, mut problems) = ConfigFile::check(text);
            let schemas = schema_problems(path, &file);
            let gates = gate_schema_problems(path, &file.gates);
            (counts.schemas, counts.gates) = (schemas.len(), gates.len());
            problems.extend(schemas.into_iter().chain(gates));
            problems
        })?;
        counts.rules = self.problems.len() - counts.schemas - counts.gates;
        Ok(())
    }

    fn read(&mut self, path: PathBuf, check: impl FnOnce(&str) -> Vec<Problem>) -> Result {
        let mut problems = match read_config(&path) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => check(&text),
            Err(poste_core::Error::Config { message, .. }) => vec![Problem { line: None, column: None, message }],
            Err(error) => return Err(error.into()),
        };
        let file = path.display().to_string();
        self.files.push(file.clone());
        problems.sort();
        self.problems.extend(problems.into_iter().map(|problem| FileProblem { file: file.clone(), problem }));
        Ok(())
    }

    /// Adds problems that one file alone does not show: a gate of an unknown type, or with a name from the other file.
    fn add_gate_problems(&mut self, place: &Place) {
        if !self.problems.is_empty() {
            return;
        }
        // Other problems of the office are not problems of these files.
        let Ok(office) = poste_config::open(place) else { return };
        if let Err(poste_core::Error::Config { path, message }) = poste_config::gates(&office) {
            let problem = Problem { line: None, column: None, message };
            self.problems.push(FileProblem { file: path.display().to_string(), problem });
        }
    }

    fn judged(self, counts: &Counts) -> Answered<Self> {
        let Counts { schemas, gates, rules } = *counts;
        let all = self.problems.len();
        let answered = Answered::new(self);
        if all == 0 {
            return answered;
        }
        let mut error = Error::usage(format!("{} found", count(all, "problem")));
        if rules > 0 {
            error = error.hint(format!("fix {} first: writes are blocked", poste_config::FILE));
        }
        if schemas > 0 {
            error = error.hint("messages of a type with an unusable schema are refused; others are not");
        }
        if gates > 0 {
            error = error.hint("no message passes a gate with an unusable schema");
        }
        if all > rules + schemas + gates {
            error = error.hint(format!("fix {} first: claiming and finishing are blocked", poste_config::LOCAL_FILE));
        }
        answered.with_error(error)
    }
}

/// Missing or invalid schemas, with the line that names them.
fn schema_problems(path: &Path, file: &ConfigFile) -> Vec<Problem> {
    let schemas = PayloadSchemas::new(path, file.schemas.clone());
    let problems = schemas.problems().into_iter().map(|(kind, message)| {
        let given = file.given.get(&format!("{}.{kind}.{}", poste_config::TYPES, poste_config::SCHEMA));
        Problem { line: given.map(|given| given.line), column: given.map(|_| 1), message }
    });
    problems.collect()
}
