//! Closing and archiving conversations.

use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use super::{approval, delivery, notice};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{Archive, Close, MessageNo};
use crate::store::archive::is_archive_name;
use crate::store::tables::{Agent, ArchivedMessage, Closed, Delivery, EndReason, Notice, State, Tables};
use crate::text::Label;

impl Rule for Close {
    type Plan = (Label, Vec<Delivery>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        let conversation = delivery::message(tables, self.message)?.conversation;
        let mut takes_part = cx.speaks_as_person(&agent);
        let mut open = Vec::new();
        for number in tables.conversation(&conversation)? {
            takes_part = takes_part || is_participant(tables, &agent, number)?;
            if delivery::expect_message(tables, number)?.notice.is_some() {
                continue; // its recipient still has to see it
            }
            open.extend(tables.deliveries_of(number)?.into_iter().filter(|delivery| delivery.state.is_open()));
            if open.len() > limits::FAN_OUT_MAX {
                return Err(refuse(
                    Code::TooLarge,
                    format!("more than {} deliveries are open in conversation {conversation}", limits::FAN_OUT_MAX),
                ));
            }
        }
        if !takes_part {
            let why = format!("only participants of conversation {conversation} or a human may close it");
            return Err(cx.only_person(&agent, why));
        }
        let is_closed = tables.closed(&conversation)?.is_some();
        if open.is_empty() && is_closed && tables.open_approvals_in(&conversation)?.is_empty() {
            return Err(refuse(Code::NothingToDo, format!("conversation {conversation} is already closed")));
        }
        Ok((conversation, open))
    }

    fn apply((conversation, open): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        approval::close_in(tables, cx, &conversation)?;
        for before in &open {
            let reason = EndReason::ConversationClosed;
            delivery::end(tables, cx, before, before.clone(), State::Returned, reason)?;
            tell_holder(tables, cx, before)?;
        }
        tables.put_closed(&conversation, &Closed { position: cx.position, at: cx.at, by: cx.actor.clone() })?;
        Ok(Effect::Touched(open.len()))
    }
}

/// Notifies the holder, which would otherwise keep working for nothing. The sender is notified when the delivery ends,
/// and the closer knows.
fn tell_holder(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    let Some(holder) = delivery::holder(before).filter(|holder| *holder != cx.actor) else { return Ok(()) };
    let message = delivery::expect_message(tables, before.message)?;
    if holder == message.sender {
        return Ok(());
    }
    notice::tell(tables, cx, Address::Agent(holder), Notice::Closed, &message, before)
}

/// Whether an agent sent or received a message.
fn is_participant(tables: &Tables<'_>, agent: &Agent, number: MessageNo) -> Result<bool, Error> {
    let message = delivery::expect_message(tables, number)?;
    Ok(message.sender == agent.name || !delivery::own_deliveries(tables, agent, &message)?.is_empty())
}

impl Rule for Archive {
    type Plan = (Archive, Vec<(Label, MessageNo)>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        speaker(tables, cx)?;
        if !is_archive_name(&self.file) {
            return Err(refuse(Code::Malformed, "an archive must be named DATE-POSITION.jsonl"));
        }
        if i64::try_from(self.lines).is_err() || self.as_of >= cx.position {
            return Err(refuse(Code::Malformed, "an archive cannot have that many lines, or be newer than the log"));
        }
        if tables.has_archive_file(&self.file)? {
            return Err(refuse(Code::Malformed, format!("the archive {} is in use", self.file)));
        }
        let mut conversations = self.conversations.clone();
        conversations.sort_unstable();
        conversations.dedup();
        if conversations.is_empty() || conversations.len() > limits::ARCHIVE_CONVERSATIONS_MAX {
            let max = limits::ARCHIVE_CONVERSATIONS_MAX;
            return Err(refuse(Code::Malformed, format!("an archive takes 1 to {max} conversations")));
        }
        let mut messages = Vec::new();
        for conversation in &conversations {
            let numbers = tables.conversation(conversation)?;
            if numbers.is_empty() {
                return Err(refuse(Code::NothingToDo, format!("conversation {conversation} has no live message")));
            }
            if tables.is_open(conversation)? {
                return Err(refuse(Code::NotFinished, format!("conversation {conversation} is not finished")));
            }
            // The writer of the file read the tables earlier. Changes since then would be in neither the file nor the
            // tables.
            if tables.changed_after(conversation, self.as_of)? {
                return Err(refuse(
                    Code::NotFinished,
                    format!(
                        "conversation {conversation} continued after record {}, as of which it was archived",
                        self.as_of
                    ),
                ));
            }
            messages.extend(numbers.into_iter().map(|number| (conversation.clone(), number)));
        }
        if conversations.len() > 1 && messages.len() > limits::ARCHIVE_MESSAGES_MAX {
            let max = limits::ARCHIVE_MESSAGES_MAX;
            return Err(refuse(Code::TooLarge, format!("more than {max} messages in one archive")));
        }
        Ok((Self { conversations, ..self.clone() }, messages))
    }

    fn apply((archive, messages): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.insert_archive(&archive, cx.position, cx.at)?;
        for (conversation, number) in &messages {
            let position = delivery::expect_message(tables, *number)?.position;
            tables.archive_message(&ArchivedMessage {
                number: *number,
                position,
                conversation: conversation.clone(),
                archive: cx.position,
            })?;
        }
        for conversation in &archive.conversations {
            approval::archive_in(tables, cx, conversation)?;
            if let Some(closed) = tables.closed(conversation)? {
                tables.archive_outcome(closed.position, cx.position)?;
            }
        }
        Ok(Effect::Touched(messages.len()))
    }
}
