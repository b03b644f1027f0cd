//! `poste dispatch send`: a request for an agent, and its answer.

use std::time::Duration;

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::office::{Office, Place};
use poste_core::store::tables::Concern;
use poste_core::text::Name;
use poste_core::views;
use poste_dispatch::engine::{Dispatcher, Report, Stopper, Until};
use poste_dispatch::verbs::{self, Runs};
use poste_verbs::actions::Carrier;
use poste_verbs::send;

use super::dispatch_live::Screen;
use super::track;
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::MessageArgs;
use crate::error::{CommandError, Kind};
use crate::{Result, notes};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Agent to send the request to
    agent: Name,
    /// Request, one line
    #[arg(allow_hyphen_values = true)]
    subject: String,
    /// Details in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// How long to wait for the answer; starts the agent if no dispatcher does
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    message: MessageArgs,
}

pub(super) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut message = args.message.into_message(cx, args.body)?;
    message.kind = Some(message.kind.map_or_else(|| "directive".parse(), Ok)?);
    message.wants_response = Some(true);
    let to = vec![Address::Agent(args.agent.clone())];
    let request = send::Input { to, subject: args.subject, reply_to: None, message };
    let mut office = cx.open_to_write()?;
    let runs = verbs::prepare_request(&mut office, &args.agent, args.wait.is_some(), cx.via())?;
    cx.carry_out(&mut office);
    let Some(patience) = args.wait else {
        let sent = cx.call_verb(&mut office, request)?;
        let number = sent.answer.sent.number;
        cx.show(&mut office, sent)?;
        held(cx, &office, number)?.iter().for_each(|why| cx.ui.warn(why));
        if runs == Runs::Untrusted {
            cx.ui.warn(format!("{} is not started until poste.toml is trusted: poste trust", args.agent));
        }
        cx.ui.say("start agents that have mail: poste dispatch poll");
        return Ok(());
    };
    let sent = cx.call_verb(&mut office, request)?;
    let number = sent.answer.sent.number;
    cx.ui.say(format!("#{number} stored for {}", args.agent));
    notes::say(&cx.ui, &sent);
    // An existing hold causes no new event.
    held(cx, &office, number)?.iter().for_each(|why| cx.ui.warn(why));
    let place = cx.place()?;
    if runs == Runs::Program {
        let only = vec![args.agent.clone()];
        let mut screen = Screen::new(&cx.ui, &only);
        screen.is_quiet = true;
        let mut hear = |report: Report<'_>| screen.hear(report);
        let mut dispatcher = Dispatcher::new(place.clone(), office, std::env::current_exe()?, &mut hear)?;
        dispatcher.only(only);
        await_answer(place, cx.carrier(), number, patience, dispatcher.stopper());
        // Ends with the answer or the timeout; active runs continue.
        dispatcher.run(Until::Stopped)?;
    } else {
        drop(office);
        wait_for_answer(&place, &cx.carrier(), number, patience)?;
    }
    let mut office = cx.open_to_write()?;
    let replies = views::replies(office.store(), number)?;
    let answer = replies.as_ref().and_then(|replies| replies.recipients.iter().find_map(|reply| reply.answer));
    if let Some(answer) = answer
        && let Some(message) = views::message(office.store(), answer)?
    {
        cx.ui.answer(&message)?;
        return cx.ack_awaited_answer(&mut office, answer);
    }
    let hint = format!("see its progress: poste track {number}");
    let holds = held(cx, &office, number)?;
    let settled = replies.is_some_and(|replies| replies.recipients.iter().all(views::Reply::is_settled));
    let error = match settled {
        true => CommandError::not_found(format!("no answer will come from {}", args.agent)).hint(hint),
        false => CommandError::new(Kind::TimedOut, format!("{} has not answered #{number} yet", args.agent)).hint(hint),
    };
    Err(holds.into_iter().fold(error, CommandError::hint))
}

/// The holds that keep a message from being started, for people.
fn held(cx: &Cx, office: &Office, number: MessageNo) -> Result<Vec<String>> {
    let Some(track) = views::track(office.store(), number, cx.ui.now)? else { return Ok(Vec::new()) };
    let holds = poste_verbs::track::holds_on(office, &track)?;
    Ok(holds.iter().map(|hold| track::held_text(&cx.ui, hold)).collect())
}

/// Stops the dispatcher of this process when the answer has come or the time is up.
fn await_answer(place: Place, carrier: Carrier, number: MessageNo, patience: Duration, stopper: Stopper) {
    std::thread::spawn(move || {
        // The dispatcher reports any error of the office itself.
        let _ = wait_for_answer(&place, &carrier, number, patience);
        stopper.leave();
    });
}

fn wait_for_answer(
    place: &Place,
    carrier: &Carrier,
    number: MessageNo,
    patience: Duration,
) -> std::result::Result<(), poste_core::Error> {
    let mut office = poste_config::open(place)?;
    office.wait_for(&Concern::Message(number).into(), Some(patience), |office| {
        carrier.carry_out(office);
        let replies = views::replies(office.store(), number)?;
        Ok(replies.is_none_or(|replies| replies.missing == 0).then_some(()))
    })?;
    Ok(())
}
