use std::io::{self, Write};

use poste_core::text::Name;
use poste_verbs::topics;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// List topics with their event counts and subscribers
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste topics")]
pub(crate) struct Args {}

impl Answer for topics::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let all = self.topics.iter().find(|topic| topic.name == "*").map(|topic| &topic.subscribers);
        let rows = self.topics.iter().map(|topic| {
            let mut subscribers: Vec<&str> = topic.subscribers.iter().map(Name::as_str).collect();
            if let Some(all) = all.filter(|_| topic.name != "*") {
                subscribers.extend(all.iter().filter(|name| !topic.subscribers.contains(name)).map(Name::as_str));
            }
            vec![
                topic.name.clone(),
                format!("{} published", topic.published),
                topic.last_at.map_or("-".to_owned(), |at| ui.time(at)),
                if subscribers.is_empty() { "nobody".to_owned() } else { subscribers.join(" ") },
            ]
        });
        ui.rows(out, &["TOPIC", "PUBLISHED", "LAST", "SUBSCRIBERS"], rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    cx.call(topics::Input {})
}
