//! A large office full of mail to search. One word is in a single message, another in every second one.

use poste_core::Error;
use poste_core::log::{Body, Content, Intent, Proof, Proposal, Register, Send, Via};
use poste_core::office::{Office, Rules};
use poste_core::text::{Name, TypeName};

use crate::rng::Rng;

/// Is in a single message, in the middle of the office.
pub const RARE: &str = "zanzibar";
/// Is in every second message.
pub const COMMON: &str = "quorum";
/// Sends every tenth message; the other agents share the rest.
pub const SENDER: &str = "agent-0";
const AGENTS: usize = 10;
const BATCH: usize = 1_000;
/// The size of the vocabulary of bodies, and the average number of words in one.
const VOCABULARY: usize = 20_000;
const BODY_WORDS: i64 = 40;

/// Fills an office with `messages` messages. The same seed gives the same mail.
pub fn fill(office: &mut Office, messages: usize, seed: u64) -> Result<(), Error> {
    let mut rng = Rng::new(seed);
    let names: Vec<Name> = (0..AGENTS).map(|index| parsed(&format!("agent-{index}"))).collect();
    let registered: Vec<Proposal> = names
        .iter()
        .map(|name| proposal(office, &format!("register {name}"), name, Intent::Register(plain_agent()), None))
        .collect();
    office.submit(&registered, &Rules::none())?;
    let mut index = 0;
    while index < messages {
        let batch: Vec<Proposal> = (index..messages.min(index + BATCH))
            .map(|index| message(office, &mut rng, &names, index, index == messages / 2))
            .collect();
        index += batch.len();
        office.submit(&batch, &Rules::none())?;
    }
    Ok(())
}

fn message(office: &Office, rng: &mut Rng, names: &[Name], index: usize, is_rare: bool) -> Proposal {
    let from = &names[index % AGENTS];
    let to = &names[(index + 1 + rng.below(AGENTS - 1)) % AGENTS];
    let kind = *rng.pick(&["message", "directive", "question", "progress_update"]);
    let mut body = words(rng, BODY_WORDS / 2, BODY_WORDS * 3 / 2);
    if index.is_multiple_of(2) {
        body = format!("{body} {COMMON} {}", words(rng, 1, 5));
    }
    if is_rare {
        body = format!("{RARE} {body}");
    }
    let content = Content { subject: words(rng, 3, 8), body: Body::from(body.as_str()), ..Content::default() };
    let send = Send::plain(parsed::<TypeName>(kind), vec![poste_core::Address::Agent(to.clone())]);
    proposal(office, &format!("message {index}"), from, Intent::Send(send), Some(content))
}

/// Some words. The first of the vocabulary are far more frequent than the last, as in any language.
fn words(rng: &mut Rng, low: i64, high: i64) -> String {
    let count = rng.between(low, high);
    let some: Vec<String> = (0..count)
        .map(|_| {
            let bound = 1 + rng.below(VOCABULARY);
            let bound = 1 + rng.below(bound);
            word(rng.below(bound))
        })
        .collect();
    some.join(" ")
}

/// The word for a number: syllables, so that the index sees plausible words.
fn word(mut number: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "xa"];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[number % SYLLABLES.len()]);
        number /= SYLLABLES.len();
        if number == 0 {
            return word;
        }
    }
}

fn plain_agent() -> Register {
    Register::default()
}

fn proposal(office: &Office, id: &str, actor: &Name, intent: Intent, content: Option<Content>) -> Proposal {
    let (id, actor, sent_at) = (parsed(id), actor.clone(), office.wall());
    Proposal { id, actor, session: None, via: Via::Cli, proof: Proof::None, sent_at, intent, content }
}

fn parsed<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("the corpus is made of good names")
}
