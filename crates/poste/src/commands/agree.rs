use std::collections::BTreeMap;
use std::io::{self, Write};

use poste_core::fold::{AgreedOn, Code, Effect};
use poste_core::log::{Agree, Content, Ends, EndsHow, Intent, MessageNo, Send};
use poste_core::office::Office;
use poste_core::text::{ContextName, RecordId};
use poste_core::views::{self, AgreementView, MessageView};
use poste_core::{Address, Position};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::context_lock::WaitArgs;
use super::context_write::{ChangeArgs, Replacement, VersionAnswer, store};
use super::{SecretArgs, context, reply};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::no_message;
use crate::ui::{Answer, Ui, escape};

/// Agree on a proposal, or see who has
///
/// A proposal is a message of type interface_contract. Its sender agrees by sending it; it is agreed when everybody it
/// was put to has agreed. A newer proposal in the same conversation takes its place. With --context the last word
/// writes what was agreed into the structured part of a shared context.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste agree 3 --as builder-2\n  poste agree 3 --context api-contracts --as builder-2\n  \
                  poste agree 3 --list"
)]
pub(crate) struct Args {
    /// The number of the proposal
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Only show who has agreed
    #[arg(long, conflicts_with_all = ["note", "context", "key", "id"])]
    list: bool,
    /// A word with it, Markdown
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Once everybody has agreed: write it down in this context
    #[arg(long, value_name = "NAME")]
    context: Option<ContextName>,
    /// With --context: under this key; otherwise what the payload has as "interface" or "name"
    #[arg(long, value_name = "KEY", requires = "context")]
    key: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgreeAnswer {
    #[serde(flatten)]
    pub agreement: AgreementView,
    /// The reply that says so; null with --list, or when the speaker had agreed before.
    pub message: Option<MessageNo>,
    pub position: Option<Position>,
    /// It was said before under this id; there is no second effect.
    pub repeat: bool,
    /// What was written now, with --context.
    pub version: Option<VersionAnswer>,
}

impl Answer for AgreeAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let AgreementView { proposal, subject, parties, agreed, superseded_by, written, .. } = &self.agreement;
        let standing = match (agreed, superseded_by) {
            (_, Some(newer)) => format!("superseded by #{newer}"),
            (true, _) => "agreed".to_owned(),
            (false, _) => "not agreed yet".to_owned(),
        };
        writeln!(out, "#{proposal} {}: {standing}", escape::line(subject))?;
        let rows = parties.iter().map(|party| {
            let word = match (&party.agreed_by, party.at, party.message) {
                (Some(_), Some(at), None) => format!("proposed it {}", ui.time(at)),
                (Some(by), Some(at), Some(number)) if by.as_str() == party.party => {
                    format!("agreed {} (#{number})", ui.time(at))
                }
                (Some(by), Some(at), Some(number)) => format!("{by} agreed {} (#{number})", ui.time(at)),
                _ if party.retired => "has not answered it, and is retired".to_owned(),
                _ => "has not answered it".to_owned(),
            };
            vec![party.party.clone(), word]
        });
        ui.rows(out, &["PARTY", "WORD"], rows.collect())?;
        for written in written {
            let since = if written.stands == Some(false) { "; its data was changed since" } else { "" };
            writeln!(out, "written down in context {}, version {}{since}", written.context, written.version)?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.list {
        let office = cx.open()?;
        let agreement = agreement(&office, args.number)?;
        return cx.ui.answer(&AgreeAnswer { agreement, message: None, position: None, repeat: false, version: None });
    }
    let mut office = cx.open_to_write()?;
    let proposal = views::message(office.store(), args.number)?.ok_or_else(|| no_message(args.number))?;
    // What cannot be written down is told before anybody has given their word.
    let record = match &args.context {
        Some(name) => Some(Record::of(&office, &args, &proposal, name)?),
        None => None,
    };
    let said = agree(cx, &mut office, &args, &proposal)?;
    let standing = agreement(&office, args.number)?;
    let mut version = None;
    if let Some(record) = &record {
        let name = record.context;
        match standing.agreed {
            true => version = write_down(cx, &mut office, &args, record)?,
            false => cx.ui.say(format!("it is written into {name} by whoever agrees last, with --context {name}")),
        }
    }
    let agreement = agreement(&office, args.number)?;
    let (message, position, repeat) = match said {
        Some((agreed, position, repeat)) => (Some(agreed.message), position, repeat),
        None => (None, None, false),
    };
    cx.ui.answer(&AgreeAnswer { agreement, message, position, repeat, version })
}

fn agreement(office: &Office, number: MessageNo) -> Result<AgreementView> {
    views::agreement(office.store(), number)?.ok_or_else(|| no_message(number))
}

/// Says yes. `None`: the speaker has said so before, and wants to write it down now.
fn agree(
    cx: &Cx,
    office: &mut Office,
    args: &Args,
    proposal: &MessageView,
) -> Result<Option<(AgreedOn, Option<Position>, bool)>> {
    let content = Content {
        subject: reply::prefixed("Agreed: ", &proposal.subject),
        body: args.note.as_deref().unwrap_or_default().into(),
        payload: Some(RawValue::from_string(r#"{"status":"accepted"}"#.to_owned()).expect("this is JSON")),
        ..Content::default()
    };
    args.secret.check(&content)?;
    let id = args.id.clone().unwrap_or_else(|| cx.new_id());
    let mut ends = Some(Ends { message: args.number, how: EndsHow::Replied, token: None });
    loop {
        let to = others(cx, office, proposal)?;
        let mail = Send {
            to,
            reply_to: Some(args.number),
            ends: ends.clone(),
            ..Send::plain("response".parse()?, Vec::new())
        };
        let intent = Intent::Agree(Agree { message: args.number, mail });
        let prepared = cx.proposal(office, intent, Some(content.clone()), Some(id.clone()))?;
        match cx.decide(office, &prepared) {
            Ok((outcome, Effect::Agreed(agreed))) => return Ok(Some((agreed, outcome.position, outcome.repeat))),
            Ok(_) => return Err(CommandError::new(Kind::Internal, "the office took the word for something else")),
            // Its own delivery has ended before, by an ack or a reply: agreeing is still to be said.
            Err(error) if ends.is_some() && is_about_ending(&error) => ends = None,
            Err(error) if error.code == Some(Code::NothingToDo.word()) && args.context.is_some() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Everybody else who was asked and has not retired since, and whoever asked. With only those two, the reply finds its way by itself.
fn others(cx: &Cx, office: &Office, proposal: &MessageView) -> Result<Vec<Address>> {
    let speaker = cx.speaker()?;
    let mut to: Vec<Address> = vec![Address::Agent(proposal.from.parse()?)];
    for address in &proposal.to {
        let Address::Agent(name) = address.parse::<Address>()? else { continue };
        let is_other = name != speaker && name.as_str() != proposal.from;
        if is_other && office.agent(&name)?.is_some_and(|agent| agent.is_active()) {
            to.push(Address::Agent(name));
        }
    }
    Ok(if to.len() == 1 { Vec::new() } else { to })
}

fn is_about_ending(error: &CommandError) -> bool {
    // A conflict of ids: it was said before, without ending what had ended.
    let codes = [
        Code::Ended,
        Code::NotClaimed,
        Code::LeaseLost,
        Code::AlreadyClaimed,
        Code::NotReady,
        Code::NotRecipient,
        Code::IdConflict,
    ];
    codes.iter().any(|code| error.code == Some(code.word()))
}

/// What is to be written down where.
struct Record<'a> {
    context: &'a ContextName,
    key: String,
    payload: Box<RawValue>,
}

impl<'a> Record<'a> {
    fn of(office: &Office, args: &Args, proposal: &MessageView, context: &'a ContextName) -> Result<Self> {
        context::view(office, context, None)?;
        let payload = proposal.payload.clone().ok_or_else(|| {
            CommandError::new(Kind::Refused, format!("message {} has no payload to write down", args.number))
                .hint("propose it with --payload, and agree on that")
        })?;
        let key = match &args.key {
            Some(key) => key.clone(),
            None => key_of(&payload)?,
        };
        Ok(Self { context, key, payload })
    }
}

/// Puts what was agreed into the structured part of a context, beside what is there. `None`: it is there already.
fn write_down(cx: &Cx, office: &mut Office, args: &Args, record: &Record<'_>) -> Result<Option<VersionAnswer>> {
    let Record { context: name, key, payload } = record;
    let change =
        ChangeArgs { summary: Some(format!("{key} is agreed")), wait: args.wait, id: None, secret: args.secret };
    // Others write other things down at the same time: theirs stay, this one is put beside them.
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        let written = agreement(office, args.number)?.written;
        if let Some(written) = written.iter().find(|written| written.context == **name) {
            cx.ui.say(format!("it was written into context {name} before, as version {}", written.version));
            return Ok(None);
        }
        let view = context::view(office, name, None)?;
        let mut data: BTreeMap<String, Box<RawValue>> = match &view.data {
            Some(data) => serde_json::from_str(data.get()).map_err(|error| {
                CommandError::new(Kind::Internal, format!("the data of context {name} cannot be read: {error}"))
            })?,
            None => BTreeMap::new(),
        };
        data.insert(key.clone(), payload.clone());
        let data = serde_json::value::to_raw_value(&data)
            .map_err(|error| CommandError::new(Kind::Internal, error.to_string()))?;
        let replacement = Replacement { text: None, data: Some(data), merge: false, agreement: Some(args.number) };
        match store(cx, office, name, view.version, replacement, &change) {
            Ok(answer) => {
                context::follow_mirror(cx, office, name);
                return Ok(Some(answer));
            }
            Err(error) if error.code == Some(Code::StaleVersion.word()) => {}
            Err(error) => {
                return Err(error
                    .hint(format!("it is agreed; write it down with: poste agree {} --context {name}", args.number)));
            }
        }
    }
    Err(CommandError::new(Kind::Conflict, format!("context {name} changes faster than it can be written to"))
        .hint(format!("lock it first: poste context lock {name}")))
}

/// What an interface calls itself.
fn key_of(payload: &RawValue) -> Result<String> {
    let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(payload.get()).ok();
    let named = fields.and_then(|fields| {
        ["interface", "name"].iter().find_map(|key| serde_json::from_str::<String>(fields.get(*key)?.get()).ok())
    });
    named.filter(|key| !key.is_empty()).ok_or_else(|| {
        CommandError::usage("under which key? The payload has neither \"interface\" nor \"name\"")
            .hint("name it: --key KEY")
    })
}
