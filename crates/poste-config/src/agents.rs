//! Reads `[agent.NAME]` and `[team]` of `poste.toml` and `.poste/local.toml`: how agents are run, and their limits.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use toml::de::{DeTable, DeValue};

use crate::gates::{command, text, words};
use crate::keys::{self, ValueKind};
use crate::read::{Reader, Wrong, read_value};
use poste_core::gates::{Program, Source};
use poste_core::limits;
use poste_core::text::{Label, Name, quoted};

/// The name of the sections.
pub const AGENT: &str = "agent";
/// Placeholders that a word of `run` may contain.
pub const RUN_TEMPLATES: &[&str] = &[
    "{agent}",
    "{number}",
    "{run}",
    "{office}",
    "{folder}",
    "{message}",
    "{prompt_file}",
    "{answer_file}",
    "{conversation}",
];

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$note:meta])* $variant:ident $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$note])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn of(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }

            pub(crate) fn read(value: &DeValue<'_>) -> Result<Self, String> {
                let word = read_value(ValueKind::OneOf(Self::WORDS), value)?;
                Ok(Self::of(&word.text()).expect("one of its words"))
            }
        }
    };
}

words!(
    /// A program that Poste knows how to run.
    Preset {
        ClaudeCode "claude-code",
        Codex "codex",
        Gemini "gemini",
        OpenCode "opencode",
        Aider "aider",
        /// Any other program: the file configures its input and its answer.
        Command "command",
    }
);

impl Preset {
    /// The name of its program on the path.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("claude"),
            Self::Codex => Some("codex"),
            Self::Gemini => Some("gemini"),
            Self::OpenCode => Some("opencode"),
            Self::Aider => Some("aider"),
            Self::Command => None,
        }
    }

    /// Variables that its program cannot do without.
    pub fn environment(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => {
                &["ANTHROPIC_*", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_*", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_*"]
            }
            Self::Codex => &["OPENAI_*", "CODEX_*"],
            Self::Gemini => &["GEMINI_*", "GOOGLE_*"],
            Self::OpenCode => &["OPENCODE_*", "XDG_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*"],
            Self::Aider => &["AIDER_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*"],
            Self::Command => &[],
        }
    }
}

words!(
    /// How the message is passed to the program.
    Input { Stdin "stdin", File "file", Argument "argument", Environment "environment" }
);

words!(
    /// Where its answer is.
    AnswerBy {
        Stdout "stdout",
        File "file",
        /// The program answers itself, with `poste` or the tools of the MCP server.
        Poste "poste",
    }
);

words!(
    /// How long a program runs.
    Mode {
        /// Started for a message or a batch, and ends afterwards.
        Session "session",
        /// Kept running, and woken when it has mail.
        Resident "resident",
        /// Started for one message under a name of its own, which is retired with it.
        Subagent "subagent",
    }
);

words!(
    /// The period of a budget.
    BudgetTime { Hour "hour", Day "day" }
);

/// How to run one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    pub preset: Preset,
    /// Replaces what the preset runs.
    pub run: Option<Vec<String>>,
    /// The copy of its program that runs instead, if that lies in the project.
    pub copy: Option<String>,
    /// None: that of the preset.
    pub input: Option<Input>,
    pub answer: Option<AnswerBy>,
    pub mode: Mode,
    /// Maximum number of messages per start.
    pub batch: u32,
    pub concurrency: u32,
    pub time_limit_ms: i64,
    pub grace_ms: i64,
    /// Working folder, relative to the project.
    pub folder: Option<String>,
    /// Whether it runs in a separate git worktree.
    pub worktree: bool,
    /// Variables that it also gets from the dispatcher; `*` at the end matches any suffix.
    pub environment: Vec<String>,
    /// Attempts before a message has failed; otherwise the setting of the office.
    pub retries: Option<u32>,
    /// Delay before the second attempt, doubled for each further one.
    pub backoff_ms: Option<i64>,
    pub quiet: Option<Quiet>,
    /// Five fields of cron: when to start it to look through its inbox.
    pub schedule: Option<String>,
    pub budget: Option<Budget>,
    /// Maximum number of runs in a chain of messages.
    pub max_hops: u32,
    pub starts_per_minute: u32,
    /// Whether it continues its previous conversation.
    pub resume: bool,
    /// Role to register it with.
    pub role: Option<Label>,
    /// Precedes its first message.
    pub prompt: Option<String>,
    pub source: Source,
    pub line: usize,
    /// Whether a person on this machine trusts what it runs.
    pub trusted: bool,
}

/// Hours of the day, in local time, when nothing is started that can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// In minutes since midnight; `to` is exclusive.
    pub from: u16,
    pub to: u16,
}

impl Quiet {
    pub fn holds_at(self, minute: u16) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to, // over midnight
        }
    }
}

/// Limits for a period. Once one is used up, nothing is started until the period ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub runs: Option<u64>,
    pub minutes: Option<u64>,
    /// In millionths of a dollar, as reported by the program.
    pub cost_micros: Option<u64>,
    pub per: BudgetTime,
}

impl AgentConfig {
    fn new(source: Source, line: usize) -> Self {
        Self {
            preset: Preset::Command,
            run: None,
            copy: None,
            input: None,
            answer: None,
            mode: Mode::Session,
            batch: 1,
            concurrency: 1,
            time_limit_ms: limits::RUN_LIMIT_MS_DEFAULT,
            grace_ms: limits::RUN_GRACE_MS_DEFAULT,
            folder: None,
            worktree: false,
            environment: Vec::new(),
            retries: None,
            backoff_ms: None,
            quiet: None,
            schedule: None,
            budget: None,
            max_hops: limits::RUN_HOPS_DEFAULT,
            starts_per_minute: limits::RUN_STARTS_DEFAULT,
            resume: false,
            role: None,
            prompt: None,
            source,
            line,
            trusted: false,
        }
    }

    /// What is run, as shown to a person who is asked to trust it.
    pub fn shown(&self) -> String {
        let program = match &self.run {
            Some(words) => Program::Words(words.clone()).text(),
            None => format!("{} (preset)", self.preset.word()),
        };
        if self.worktree { format!("{program}, after git in a worktree of its own") } else { program }
    }

    /// Whether its working folder is meant to be outside of the project.
    pub fn leaves_project(&self) -> bool {
        self.folder.as_deref().is_some_and(leads_outside)
    }

    /// The variables that it gets from the dispatcher.
    pub fn passed(&self) -> Vec<String> {
        self.preset.environment().iter().map(|name| (*name).to_owned()).chain(self.environment.clone()).collect()
    }

    /// The program that is started, as the file or the preset names it.
    pub fn program(&self) -> Option<&str> {
        match &self.run {
            Some(words) => words.first().map(String::as_str),
            None => self.preset.program(),
        }
    }
}

const KEYS: &[&str] = &[
    "preset",
    "input",
    "answer",
    "mode",
    "batch",
    "concurrency",
    "time_limit",
    "grace",
    "worktree",
    "retries",
    "backoff",
    "max_hops",
    "starts_per_minute",
    "resume",
    "folder",
    "quiet",
    "schedule",
    "role",
    "prompt",
    "run",
    "environment",
    "budget",
];

/// Ten million dollars.
const COST_MICROS_MAX: u64 = 10_000_000_000_000;

pub(crate) fn read(reader: &mut Reader<'_>, agents: &DeTable<'_>) {
    for (name, value) in agents {
        let agent: Name = match name.get_ref().parse() {
            Ok(agent) => agent,
            Err(why) => {
                reader.say(name.span(), format!("agent: {why}"));
                continue;
            }
        };
        let Some(fields) = value.get_ref().as_table() else {
            reader.say(name.span(), format!("agent.{agent} is a section: write [agent.{agent}]"));
            continue;
        };
        let mut config = AgentConfig::new(reader.source, reader.line(name.span().start));
        let before = reader.problems.len();
        reader
            .each(&format!("[agent.{agent}]"), fields, KEYS, |_, name, value| set(&mut config, name.get_ref(), value));
        if reader.problems.len() == before
            && let Some(why) = conflict(&config, fields)
        {
            reader.say(name.span(), format!("agent.{agent}: {why}"));
        }
        reader.file.agents.insert(agent, config);
    }
}

fn set(config: &mut AgentConfig, name: &str, value: &DeValue<'_>) -> Result<(), Wrong> {
    match name {
        "preset" => config.preset = Preset::read(value)?,
        "input" => config.input = Some(Input::read(value)?),
        "answer" => config.answer = Some(AnswerBy::read(value)?),
        "mode" => config.mode = Mode::read(value)?,
        "batch" => config.batch = count_u32(value, 1, limits::RUN_CLAIMS_MAX as u64)?,
        "concurrency" => config.concurrency = count_u32(value, 1, limits::RUN_CONCURRENCY_MAX)?,
        "time_limit" => config.time_limit_ms = length(value, limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)?,
        "grace" => config.grace_ms = length(value, 0, limits::RUN_GRACE_MS_MAX)?,
        "worktree" => config.worktree = flag(value)?,
        "retries" => config.retries = Some(count_u32(value, 1, limits::ATTEMPTS_MAX_MAX as u64)?),
        "backoff" => config.backoff_ms = Some(length(value, 0, limits::RETRY_DELAY_MS_MAX)?),
        "max_hops" => config.max_hops = count_u32(value, 0, limits::RUN_HOPS_MAX)?,
        "starts_per_minute" => config.starts_per_minute = count_u32(value, 1, limits::RUN_STARTS_MAX)?,
        "resume" => config.resume = flag(value)?,
        "folder" => config.folder = Some(text(value)?),
        "quiet" => config.quiet = Some(quiet(&text(value)?)?),
        "schedule" => {
            let fields = text(value)?;
            schedule(&fields)?;
            config.schedule = Some(fields);
        }
        "role" => config.role = Some(parsed(&text(value)?)?),
        "prompt" => config.prompt = Some(text(value)?),
        "run" => config.run = Some(command(value, "[\"claude\", \"-p\"]", RUN_TEMPLATES)?),
        "environment" => config.environment = environment(value)?,
        "budget" => config.budget = Some(budget(value)?),
        _ => return Err(Wrong::Unknown),
    }
    Ok(())
}

fn count(value: &DeValue<'_>, min: u64, max: u64) -> Result<u64, String> {
    Ok(read_value(ValueKind::Count { min, max }, value)?.count().unwrap_or(min))
}

pub(crate) fn count_u32(value: &DeValue<'_>, min: u64, max: u64) -> Result<u32, String> {
    Ok(u32::try_from(count(value, min, max)?).unwrap_or(u32::MAX))
}

fn length(value: &DeValue<'_>, min: i64, max: i64) -> Result<i64, String> {
    Ok(read_value(ValueKind::Length { min, max }, value)?.length().unwrap_or(min))
}

fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    Ok(read_value(ValueKind::Flag, value)?.flag().unwrap_or(false))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why: T::Err| why.to_string())
}

fn environment(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let names = match value {
        DeValue::Array(items) if items.is_empty() => return Ok(Vec::new()),
        _ => words(value, "[\"ANTHROPIC_API_KEY\", \"AWS_*\"]")?,
    };
    let is_name = |name: &str| {
        let name = name.strip_suffix('*').unwrap_or(name);
        // `*` alone would pass on every variable, including secrets.
        !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
    };
    match names.iter().find(|name| !is_name(name)) {
        // Values belong in the environment, not in a shared file.
        Some(odd) => Err(format!("{} is not a variable name", quoted(odd))),
        None => Ok(names),
    }
}

fn quiet(text: &str) -> Result<Quiet, String> {
    let wrong = || "must be two times of day, for example \"22:00-07:00\"".to_owned();
    let minute = |time: &str| {
        let (hours, minutes) = time.trim().split_once(':')?;
        let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let quiet = Quiet { from: minute(from).ok_or_else(wrong)?, to: minute(to).ok_or_else(wrong)? };
    if quiet.from == quiet.to { Err("the two times are the same".to_owned()) } else { Ok(quiet) }
}

/// Parses the five fields of cron, in local time.
pub fn schedule(text: &str) -> Result<croner::Cron, String> {
    // No agent is started by the second.
    let parser = croner::parser::CronParser::builder().seconds(croner::parser::Seconds::Disallowed).build();
    parser.parse(text).map_err(|why| format!("must be a schedule like \"*/30 9-17 * * mon-fri\": {why}"))
}

fn budget(value: &DeValue<'_>) -> Result<Budget, String> {
    let Some(fields) = value.as_table() else {
        return Err("must be a table, for example { runs = 20, cost = 5.0, per = \"day\" }".to_owned());
    };
    let mut budget = Budget { runs: None, minutes: None, cost_micros: None, per: BudgetTime::Day };
    let number =
        |name: &str, value| count(value, 1, limits::RUN_STARTS_MAX).map(Some).map_err(|why| format!("{name}: {why}"));
    for (name, value) in fields {
        let (name, value) = (name.get_ref().as_ref(), value.get_ref());
        match name {
            "runs" => budget.runs = number(name, value)?,
            "minutes" => budget.minutes = number(name, value)?,
            "cost" => budget.cost_micros = Some(cost(value)?),
            "per" => budget.per = BudgetTime::read(value).map_err(|_| "per: must be \"hour\" or \"day\"".to_owned())?,
            other => return Err(keys::unknown("key", other, ["runs", "minutes", "cost", "per"].into_iter())),
        }
    }
    match (budget.runs, budget.minutes, budget.cost_micros) {
        (None, None, None) => Err("set at least one of runs, minutes and cost".to_owned()),
        _ => Ok(budget),
    }
}

fn cost(value: &DeValue<'_>) -> Result<u64, String> {
    let micros = match value {
        DeValue::Integer(number) => micros(number.as_str()),
        DeValue::Float(number) => micros(number.as_str()),
        _ => None,
    };
    let micros = micros.filter(|micros| (1..COST_MICROS_MAX).contains(micros));
    micros.ok_or_else(|| "cost: must be an amount in dollars, for example 2.50".to_owned())
}

/// An amount like `2.50` or `1.2e-3` in millionths, rounded to the nearest. Parsed as text, not as a binary fraction.
pub fn micros(amount: &str) -> Option<u64> {
    const PLACES: i32 = 6;
    let (digits, exponent) = match amount.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (amount, 0),
    };
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let all: Vec<u8> = whole.bytes().chain(rest.bytes()).filter(|sign| *sign != b'_').collect();
    if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = i32::try_from(rest.bytes().filter(|sign| *sign != b'_').count()).ok()?;
    // How many of the digits count; the next one only decides the rounding.
    let shift = exponent.checked_add(PLACES)?.checked_sub(places)?;
    let kept = i64::try_from(all.len()).ok()?.checked_add(shift.into())?;
    let digit = |at: i64| usize::try_from(at).ok().and_then(|at| all.get(at)).map_or(0, |sign| u64::from(sign - b'0'));
    let mut micros = 0_u64;
    // No amount needs more digits; but leading digits may be zeros.
    for at in 0..kept.clamp(0, 400) {
        micros = micros.checked_mul(10)?.checked_add(digit(at))?;
    }
    if kept > 400 && micros > 0 {
        return None;
    }
    micros.checked_add(u64::from(kept >= 0 && digit(kept) >= 5))
}

/// Problems that concern more than one key.
fn conflict(config: &AgentConfig, fields: &DeTable<'_>) -> Option<String> {
    if config.preset == Preset::Command && config.run.is_none() {
        return Some("it has neither run nor preset".to_owned());
    }
    if config.folder.is_some() && config.worktree {
        return Some("it has both folder and worktree; use only one".to_owned());
    }
    if config.worktree && config.concurrency > 1 {
        return Some("its runs would share one worktree: with worktree, concurrency must be 1".to_owned());
    }
    let may_leave = config.source == Source::Machine;
    if config.folder.as_deref().is_some_and(leads_outside) && !may_leave {
        return Some("its folder is outside of the project; only .poste/local.toml may name such a folder".to_owned());
    }
    if config.mode == Mode::Subagent && config.answer == Some(AnswerBy::Poste) {
        return Some(
            "a subagent has a name of its own and cannot end the message itself: its answer must be stdout or file"
                .to_owned(),
        );
    }
    if config.mode == Mode::Resident && fields.get("batch").is_some() {
        return Some("a program that is kept running takes its mail itself: remove batch".to_owned());
    }
    None
}

/// Whether a path leads out of the folder it is relative to.
fn leads_outside(path: &str) -> bool {
    !Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The name of the section.
pub const TEAM: &str = "team";

/// The agents that start together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TeamConfig {
    pub lead: Option<Name>,
    pub members: Vec<Name>,
    /// A working agent that prints nothing for this long is stuck.
    pub stuck_after_ms: Option<i64>,
    pub line: usize,
}

pub(crate) fn read_team(reader: &mut Reader<'_>, line: usize, fields: &DeTable<'_>) {
    reader.file.team.line = line;
    reader.each("[team]", fields, &["lead", "members", "stuck_after"], |reader, name, value| {
        let team = &mut reader.file.team;
        match name.get_ref().as_ref() {
            "lead" => team.lead = Some(parsed(&text(value)?)?),
            "members" => team.members = members(value)?,
            "stuck_after" => {
                team.stuck_after_ms = Some(length(value, limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)?);
            }
            _ => return Err(Wrong::Unknown),
        }
        Ok(())
    });
}

fn members(value: &DeValue<'_>) -> Result<Vec<Name>, String> {
    match value {
        // The lead may add teammates as they are needed.
        DeValue::Array(items) if items.is_empty() => Ok(Vec::new()),
        _ => words(value, "[\"coder\", \"reviewer\"]")?.iter().map(|name| parsed(name)).collect(),
    }
}

/// How this machine runs its agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runners {
    pub agents: BTreeMap<Name, AgentConfig>,
    pub team: TeamConfig,
    /// Maximum number of concurrent runs of all agents.
    pub concurrency: u32,
}
