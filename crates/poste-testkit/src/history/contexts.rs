//! Shared contexts: created, appended to, replaced from newer and older versions, read, locked and forcibly unlocked;
//! and proposals that are agreed on and recorded in them.

use poste_core::log::{
    Agree, Content, ContextAppend, ContextCreate, ContextLock, ContextRead, ContextReplace, ContextUnlock, Document,
    Ends, EndsHow, Intent, Lines, Send, context_mail,
};
use poste_core::store::tables::Context;
use poste_core::text::{ContextName, Name};
use poste_core::{Address, limits};

use super::sight::Sight;
use super::words::{name, type_name, word};
use super::{Draft, Generator, STRANGER};

const CONTEXTS: &[&str] = &["plan", "api-contracts", "standards"];

/// What can be agreed on.
const PROPOSAL: &str = "interface_contract";

#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Append,
    Replace,
    Read,
    Lock,
    Unlock,
    Break,
}

impl Generator {
    pub(super) fn context(&mut self, sight: &Sight) -> Draft {
        let step = self.rng.weighted(&[
            (10, Step::Create),
            (30, Step::Append),
            (25, Step::Replace),
            (12, Step::Read),
            (14, Step::Lock),
            (8, Step::Unlock),
            (5, Step::Break),
        ]);
        let locked: Vec<&Context> = sight.contexts.iter().filter(|context| context.lock.is_some()).collect();
        // A lock only lasts a short while, and an agent that unlocks one knows that it exists.
        let known = match (step, self.rng.pick_any(&locked)) {
            (Step::Unlock | Step::Break, Some(locked)) => Some((*locked).clone()),
            _ => self.rng.pick_any(&sight.contexts).cloned(),
        };
        let actor = self.writer(sight, known.as_ref());
        let context = match &known {
            Some(context) if self.rng.chance(970) => context.name.clone(),
            _ => context_name(CONTEXTS[self.rng.below(CONTEXTS.len())]),
        };
        let version = known.as_ref().map_or(1, |context| context.version);
        let lines = Lines { added: self.rng.below(9) as u32, removed: self.rng.below(3) as u32 };
        let mail = if self.rng.chance(980) { context_mail(&context) } else { self.odd_mail(&context) };
        let (intent, content) = match step {
            Step::Create => {
                let header = ContextCreate {
                    name: context_name(CONTEXTS[self.rng.below(CONTEXTS.len())]),
                    kind: word("decisions"),
                    lines,
                    data: false,
                    schema: self.rng.chance(200),
                    mail,
                };
                let mail = context_mail(&header.name);
                (Intent::ContextCreate(ContextCreate { mail, ..header }), self.version_content())
            }
            Step::Append => {
                (Intent::ContextAppend(ContextAppend { name: context, lines, mail }), self.version_content())
            }
            Step::Replace => {
                let if_version = self.version_near(version);
                let text = self.rng.chance(950);
                let agreement = if self.rng.chance(300) { self.rng.pick_any(&sight.proposals).copied() } else { None };
                let header = ContextReplace { name: context, if_version, lines, text, data: false, agreement, mail };
                (Intent::ContextReplace(header), self.version_content())
            }
            Step::Read => {
                (Intent::ContextRead(ContextRead { name: context, version: self.version_near(version) }), None)
            }
            Step::Lock => {
                let for_ms = self.rng.weighted(&[(40, 30_000), (55, limits::HOUR_MS), (5, 1)]);
                (Intent::ContextLock(ContextLock { name: context, for_ms }), None)
            }
            Step::Unlock => (Intent::ContextUnlock(ContextUnlock { name: context, mail: None }), None),
            Step::Break => {
                let holder = known.and_then(|context| context.lock).map_or_else(|| name("bob"), |lock| lock.holder);
                let mail = Some(Send::plain(type_name("alert"), vec![Address::Agent(holder)]));
                (Intent::ContextUnlock(ContextUnlock { name: context, mail }), self.content())
            }
        };
        Draft { content, ..self.draft(actor, intent) }
    }

    /// A proposal to one or two others; sometimes in the conversation of an older one.
    pub(super) fn propose_contract(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let to = (0..1 + self.rng.below(2)).map(|_| Address::Agent(self.somebody(sight))).collect();
        let mut mail = Send::plain(type_name(PROPOSAL), to);
        mail.conversation = self.rng.chance(300).then(|| "contracts".parse().expect("a label"));
        let content = self.content();
        Draft { content, ..self.draft(actor, Intent::Send(mail)) }
    }

    /// Mostly, one of the asked parties agrees.
    pub(super) fn agree(&mut self, sight: &Sight) -> Option<Draft> {
        let message = *self.rng.pick_any(&sight.proposals)?;
        let asked = sight.in_state(|seen| seen.message == message);
        let actor = match self.rng.pick_any(&asked) {
            Some(seen) if self.rng.chance(850) => match &seen.address {
                Address::Agent(name) => name.clone(),
                _ => self.somebody(sight),
            },
            _ => self.somebody(sight),
        };
        let mut mail = Send { reply_to: Some(message), ..Send::plain(type_name("response"), Vec::new()) };
        if self.rng.chance(500) {
            mail.ends = Some(Ends { message, how: EndsHow::Replied, token: None });
        }
        let content = self.content();
        Some(Draft { content, ..self.draft(actor, Intent::Agree(Agree { message, mail })) })
    }

    /// Mostly the lock's holder; otherwise anyone.
    fn writer(&mut self, sight: &Sight, context: Option<&Context>) -> Name {
        match context.and_then(|context| context.lock.as_ref()) {
            Some(lock) if self.rng.chance(600) => lock.holder.clone(),
            _ if self.rng.chance(20) => name(STRANGER),
            _ => self.somebody(sight),
        }
    }

    /// Mostly the newest version; otherwise an earlier one, or one that does not exist yet.
    fn version_near(&mut self, version: u64) -> u64 {
        match self.rng.below(100) {
            0..70 => version,
            70..95 => version.saturating_sub(1 + self.rng.below(3) as u64),
            _ => version + 1,
        }
    }

    fn version_content(&mut self) -> Option<Content> {
        let text = format!("line {}\n", self.rng.below(1_000));
        let text = if self.rng.chance(10) { text.repeat(limits::CONTENT_INLINE_BYTES_MAX / 8) } else { text };
        let document = Some(Document { text: Some(text), ..Document::default() });
        Some(Content { subject: "a version".to_owned(), document, ..Content::default() })
    }

    /// A publication that does not match a version.
    fn odd_mail(&mut self, context: &ContextName) -> Send {
        let mut mail = context_mail(context);
        match self.rng.below(3) {
            0 => mail.to = vec![Address::Everyone],
            1 => mail.conversation = None,
            _ => mail.kind = type_name("alert"),
        }
        mail
    }
}

fn context_name(text: &str) -> ContextName {
    text.parse().expect("a context's name")
}
