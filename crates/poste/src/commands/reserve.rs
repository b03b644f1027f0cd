use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use poste_connect::shell;
use poste_core::fold::{Code, Effect, Outcome, Reserved, Verdict};
use poste_core::log::{Intent, MessageNo, Position, Proposal, Reserve};
use poste_core::office::Office;
use poste_core::pattern::Pattern;
use poste_core::text::{Name, RecordId};
use poste_core::views::{self, ReservationConflict};
use poste_core::{Address, limits};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SecretArgs, recorded, said, send};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::Draft;
use crate::error::{CommandError, Kind};
use crate::explain::explain;
use crate::paths::Top;
use crate::ui::{Answer, Ui, escape};

/// Reserve paths, so that nobody else works on them meanwhile
///
/// A pattern is a path with *, ?, [a-z], {a,b} and ** in it; quote it, or the shell writes it out. Without any of
/// these it is the file, or the folder with everything below. Whatever another agent has reserved and has a path in
/// common with it is in the way: the error names who holds what, why, and how long. Several may share paths with
/// --shared. Reserving the same pattern again counts its time anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reserve 'src/auth/**' --for 1h --why 'the new login' --as coder\n  \
                        poste reserve docs README.md --shared\n  poste reserve 'src/**' --ask --wait 10m\n  \
                        poste reserve --literal 'app/[id]/page.tsx'")]
pub(crate) struct Args {
    /// Paths or patterns, from the current folder
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    length: Duration,
    /// Others may share them; nobody may have them alone
    #[arg(long)]
    shared: bool,
    /// What for: whoever wants the same reads it
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// If somebody is in the way, ask them, with a message of type resource_conflict
    #[arg(long)]
    ask: bool,
    /// If somebody is in the way, wait so long for it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// Every character means itself: these are paths, no patterns
    #[arg(long)]
    literal: bool,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

impl Args {
    /// Whether it blocks until something happens.
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some()
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReserveAnswer {
    /// What is held now. After a repeat: what of it is still held.
    pub reserved: Vec<Reserved>,
    pub id: RecordId,
    pub position: Option<Position>,
    /// It was done before under this id; there is no second effect.
    pub repeat: bool,
}

impl ReserveAnswer {
    pub(crate) fn of(outcome: Outcome, effect: Effect) -> Result<Self> {
        let Effect::Reserved(reserved) = effect else {
            return Err(CommandError::new(Kind::Internal, "the office took it for something else"));
        };
        Ok(Self { reserved, id: outcome.id, position: outcome.position, repeat: outcome.repeat })
    }
}

impl Answer for ReserveAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        if self.reserved.is_empty() {
            return writeln!(out, "reserved before, under this id; nothing of it is held any more");
        }
        for held in &self.reserved {
            let how = if held.shared { "shared" } else { "reserved" };
            let pattern = escape::line(held.pattern.as_str());
            writeln!(out, "{how} {pattern}, ends {}{again}", ui.time(held.until))?;
        }
        Ok(())
    }
}

/// A length of time as records have it.
pub(crate) fn ms(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let content = match &args.why {
        Some(why) => Some(args.secret.text("reason", said("--why", why)?)?),
        None => None,
    };
    let mut office = cx.open_to_write()?;
    let speaker = cx.speaker()?;
    let top = Top::find(cx, &office)?;
    let patterns =
        args.patterns.iter().map(|typed| top.pattern(typed, args.literal)).collect::<Result<Vec<Pattern>>>()?;
    if !args.literal {
        for typed in args.patterns.iter().filter(|typed| top.has(typed)) {
            cx.ui.say(format!("{typed} is a file's name as well as a pattern; for the file alone: --literal"));
        }
    }
    let reserve = Reserve { patterns, for_ms: ms(args.length), shared: args.shared };
    let patience = args.wait.map(|length| Patience { length, is_own_id: args.id.is_some() });
    let proposal = cx.proposal(&office, Intent::Reserve(reserve.clone()), content, args.id)?;
    let waits_first = match patience {
        // An id is never used again after a refusal, so the caller's own is not spent on a try.
        Some(Patience { is_own_id: true, .. }) => {
            cx.agent(&office)?;
            recorded(cx, &office, &proposal.id)?.is_none() && !conflicts(&office, &speaker, &reserve)?.is_empty()
        }
        _ => false,
    };
    let tried = if waits_first { None } else { Some(cx.propose(&mut office, &proposal)?) };
    let outcome = if let Some(outcome) = tried.filter(|outcome| !is_in_the_way(outcome)) {
        outcome
    } else {
        let conflicts = conflicts(&office, &speaker, &reserve)?;
        let asked = if args.ask { ask(cx, &mut office, &reserve, args.why.as_deref(), &conflicts)? } else { None };
        match patience {
            Some(patience) => wait(cx, &mut office, &proposal, &reserve, patience)?,
            None => return Err(refusal(cx, &conflicts, asked)),
        }
    };
    let effect = match outcome.verdict.clone() {
        Verdict::Accepted(effect) => effect,
        Verdict::Rejected(rejection) => return Err(explain(&office, &proposal, rejection.into())?),
    };
    cx.ui.now = office.now()?;
    let answer = ReserveAnswer::of(outcome, effect)?;
    cx.ui.answer(&answer)?;
    if let Some(first) = answer.reserved.first() {
        let again = typed_again(&args.patterns, args.literal);
        cx.ui.say(format!("held until {}; free it sooner: poste release {again}", first.until));
    }
    Ok(())
}

/// What to type to `release`, to which a number would be a message.
fn typed_again(patterns: &[String], literal: bool) -> String {
    let words = patterns.iter().map(|typed| match crate::cli::number(typed).is_ok() || typed == "all" {
        true => shell::word(&format!("./{typed}")),
        false => shell::word(typed),
    });
    let literal = literal.then(|| "--literal".to_owned());
    // What begins like an option is none after this.
    let dashes = patterns.iter().any(|typed| typed.starts_with('-')).then(|| "--".to_owned());
    literal.into_iter().chain(dashes).chain(words).collect::<Vec<_>>().join(" ")
}

fn is_in_the_way(outcome: &Outcome) -> bool {
    matches!(&outcome.verdict, Verdict::Rejected(rejection) if rejection.code == Code::Reserved)
}

fn conflicts(office: &Office, speaker: &Name, reserve: &Reserve) -> Result<Vec<ReservationConflict>> {
    Ok(views::reservation_conflicts(office.store(), speaker, &reserve.patterns, reserve.shared)?)
}

#[derive(Debug, Clone, Copy)]
struct Patience {
    length: Duration,
    /// The caller gave the id.
    is_own_id: bool,
}

/// Tries again whenever nothing is in the way any more; somebody else may be faster. Each try has an id of its own;
/// under the caller's there is one try only.
fn wait(
    cx: &mut Cx,
    office: &mut Office,
    proposal: &Proposal,
    reserve: &Reserve,
    patience: Patience,
) -> Result<Outcome> {
    let found = office.wait_for(Some(patience.length), |office| {
        let actor = &proposal.actor;
        if !views::reservation_conflicts(office.store(), actor, &reserve.patterns, reserve.shared)?.is_empty() {
            return Ok(None);
        }
        if patience.is_own_id {
            return Ok(Some(cx.propose(office, proposal)?));
        }
        let proposal = Proposal { id: cx.new_id(), ..proposal.clone() };
        Ok(Some(cx.propose(office, &proposal)?).filter(|outcome| !is_in_the_way(outcome)))
    })?;
    if let Some(outcome) = found {
        return Ok(outcome);
    }
    cx.ui.now = office.now()?;
    let conflicts = conflicts(office, &proposal.actor, reserve)?;
    let error = CommandError::new(Kind::TimedOut, "it was not freed in that time");
    Err(conflicts.iter().take(SHOWN_MAX).fold(error, |error, conflict| error.cause(told(cx, conflict))))
}

/// So many that stand in the way are told of one by one.
const SHOWN_MAX: usize = 10;

/// Who holds what, why and how long, and what to do about it.
fn refusal(cx: &Cx, conflicts: &[ReservationConflict], asked: Option<Asked>) -> CommandError {
    let message = match conflicts {
        // Freed between the refusal and the look.
        [] => "somebody held it a moment ago; try again".to_owned(),
        [one] => told(cx, one),
        many => format!("{} reservations are in the way", many.len()),
    };
    let mut error = CommandError::new(Kind::Conflict, message).code(Code::Reserved.word());
    if conflicts.len() > 1 {
        for conflict in conflicts.iter().take(SHOWN_MAX) {
            error = error.cause(told(cx, conflict));
        }
        if conflicts.len() > SHOWN_MAX {
            error = error.cause(format!("and {} more: poste reservations", conflicts.len() - SHOWN_MAX));
        }
    }
    match asked {
        Some(Asked { number, before: false }) => {
            error.hint(format!("asked with #{number}: poste wait --replies {number}"))
        }
        Some(Asked { number, before: true }) => {
            error.hint(format!("asked before, with #{number}: poste track {number}"))
        }
        None => error.hint("ask for it: --ask; wait for it: --wait 10m"),
    }
}

/// `ann holds src/auth/** for 42m more: the new login (it overlaps src/*/login.rs)`.
fn told(cx: &Cx, conflict: &ReservationConflict) -> String {
    let held = &conflict.held;
    let how = if held.shared { "shares" } else { "holds" };
    let overlap = match held.pattern == conflict.wanted {
        true => String::new(),
        false => format!(" (it overlaps {})", conflict.wanted),
    };
    format!("{} {how} {}{overlap}, {}: {}", held.holder, held.pattern, left(&cx.ui, held), reason(held))
}

/// `ends in 42m`.
pub(crate) fn left(ui: &Ui, held: &views::ReservationView) -> String {
    format!("ends {}", ui.time(held.until))
}

/// Why it is held, in one line.
pub(crate) fn reason(held: &views::ReservationView) -> String {
    const CHARS_MAX: usize = 200;
    if held.redacted {
        return "(the reason was redacted)".to_owned();
    }
    let Some(why) = &held.why else { return "(no reason given)".to_owned() };
    let line = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if text.len() < why.trim_end().len() {
        text.push('…');
    }
    text
}

/// A message that asks for what is held.
#[derive(Debug)]
struct Asked {
    number: MessageNo,
    /// For the same thing, some time ago.
    before: bool,
}

/// Asks whoever is in the way. Once: the same wish against the same reservations has one id for ever.
fn ask(
    cx: &Cx,
    office: &mut Office,
    reserve: &Reserve,
    why: Option<&str>,
    conflicts: &[ReservationConflict],
) -> Result<Option<Asked>> {
    if conflicts.is_empty() {
        return Ok(None);
    }
    let speaker = cx.speaker()?;
    let id = ask_id(&speaker, reserve, conflicts)?;
    if let Some(number) = views::why_id(office.store(), &id)?.number {
        return Ok(Some(Asked { number, before: true }));
    }
    let holders: BTreeSet<&Name> = conflicts.iter().map(|conflict| &conflict.held.holder).collect();
    let wanted: Vec<String> = reserve.patterns.iter().map(|pattern| one_line(pattern.as_str())).collect();
    let draft = Draft {
        to: holders.into_iter().cloned().map(Address::Agent).take(limits::ADDRESSES_MAX).collect(),
        subject: shortened(&format!("{speaker} needs {}", wanted.join(" "))),
        body: body(&speaker, &wanted, why, conflicts).into_bytes(),
        id: Some(id),
        // What is quoted here was stored before, or is stored with the reservation.
        secret: SecretArgs { allow_secret: true },
        ..Draft::default()
    };
    let sent = send::submit(cx, office, draft, "resource_conflict")?;
    Ok(Some(Asked { number: sent.sent.number, before: false }))
}

fn body(speaker: &Name, wanted: &[String], why: Option<&str>, conflicts: &[ReservationConflict]) -> String {
    let mut text = format!("{speaker} wants to reserve:\n\n");
    text.extend(wanted.iter().map(|pattern| format!("    {pattern}\n")));
    text.extend(why.map(|why| format!("\nWhat for: {why}\n")));
    text.push_str("\nIn the way is:\n\n");
    for conflict in conflicts.iter().take(SHOWN_MAX) {
        let held = &conflict.held;
        text.push_str(&format!("    {} of {} until {}\n", one_line(held.pattern.as_str()), held.holder, held.until));
    }
    if conflicts.len() > SHOWN_MAX {
        text.push_str(&format!("    and {} more\n", conflicts.len() - SHOWN_MAX));
    }
    text.push_str("\nFree it with `poste release PATTERN` when you can, and answer when that will be.\n");
    text
}

/// Patterns may hold line breaks; a listing has one line for each.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

pub(crate) fn shortened(text: &str) -> String {
    let mut end = text.len().min(limits::SUBJECT_BYTES_MAX - '…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match end == text.len() {
        true => text.to_owned(),
        false => format!("{}…", &text[..end]),
    }
}

fn ask_id(speaker: &Name, reserve: &Reserve, conflicts: &[ReservationConflict]) -> Result<RecordId> {
    let numbers: BTreeSet<u64> = conflicts.iter().map(|conflict| conflict.held.number.0).collect();
    let patterns: BTreeSet<&Pattern> = reserve.patterns.iter().collect();
    let wish = serde_json::json!([speaker, reserve.shared, patterns, numbers]).to_string();
    Ok(format!("ask-{}", &blake3::hash(wish.as_bytes()).to_hex()[..32]).parse()?)
}
