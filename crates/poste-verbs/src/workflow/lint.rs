//! Reports all problems of definitions, with line numbers.

use poste_config::Problem;
use poste_core::Error as CoreError;
use poste_core::text::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definitions::nothing_defined;
use super::{Given, Known, Registered, Source, check, files};
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Names of definitions; none: all
    #[schemars(with = "Vec<String>")]
    pub names: Vec<Given>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// Files of the definitions that were read.
    pub files: Vec<String>,
    /// Problems, by file and line.
    pub problems: Vec<FileProblem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileProblem {
    /// File with the problem.
    pub file: String,
    #[serde(flatten)]
    pub problem: Problem,
}

impl Verb for Input {
    const NAME: &'static str = "workflow lint";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let folder = desk.office.path()?;
        let sources = match self.names.is_empty() {
            true => files::definitions(folder),
            false => self.names.into_iter().map(|name| name.find(folder).map(Ok)).collect::<Result<_>>()?,
        };
        of_sources(sources, &Registered(desk.office))
    }
}

/// Checks definitions, and reports those that cannot be read. Without an office, every agent they name may exist.
pub fn of_sources(sources: Vec<Result<Source, CoreError>>, known: &dyn Known) -> Result<Answered<Answer>> {
    let is_empty = sources.is_empty();
    let mut answer = Answer::default();
    for source in sources {
        let source = match source {
            Ok(source) => source,
            Err(CoreError::Config { path, message }) => {
                let problem = Problem { line: None, column: None, message };
                answer.problems.push(FileProblem { file: path.display().to_string(), problem });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let file = source.path.display().to_string();
        let (_, problems) = check::lint(&source.text, source.format, &source.name, known);
        answer.problems.extend(problems.into_iter().map(|problem| FileProblem { file: file.clone(), problem }));
        answer.files.push(file);
    }
    let problems = answer.problems.len();
    let answered = Answered::new(answer);
    let answered = if is_empty { answered.next(nothing_defined()) } else { answered };
    Ok(match problems {
        0 => answered,
        problems => answered.with_error(Error::usage(format!("{} found", count(problems, "problem")))),
    })
}
