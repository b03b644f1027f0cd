//! An index that grew with its office equals one built from scratch, whatever happened in between.

use poste_core::log::{Body, Content, Intent, MessageNo};
use poste_core::office::{Place, Rules};
use poste_core::store::search::forget;
use poste_core::store::{Folder, Options};
use poste_core::views::{self, SearchQuery};
use poste_core::{Error, Office};
use poste_testkit::clock::SimClock;
use poste_testkit::history::{Generator, TimeStep};
use poste_testkit::rng::Rng;
use poste_testkit::seeds;
use rusqlite::Connection;

const SEEDS: u64 = 8;
const STEPS: usize = 300;
const WORDS: [&str; 8] = ["login", "null", "École", "漢字", "src/auth.rs", "foo_bar", "ISSUE-12", "draft"];

#[test]
fn an_index_that_grew_is_the_index_made_at_one_go() {
    seeds::run("searching", SEEDS, |seed| one_history(seed).map_err(|error| error.to_string()));
}

fn one_history(seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let clock = SimClock::new();
    let place = Place { path: folder.path().join(".poste"), clock: clock.clone(), options: Options::default() };
    place.create()?;
    let mut office = place.open()?;
    let mut generator = Generator::new(seed);
    let mut rng = Rng::new(seed);
    let (mut refreshed, mut archived) = (0, 0);
    for _ in 0..STEPS {
        match generator.time_step() {
            TimeStep::Passes(ms) => clock.advance(ms),
            // Clock leaps are covered by another test.
            TimeStep::None | TimeStep::WallStep(_) | TimeStep::Reboot(_) => {}
        }
        let mut proposal = generator.next(office.store(), office.now()?)?;
        if let Some(content) = &mut proposal.content {
            add_words(content, &mut rng);
        }
        if let Intent::Archive(archive) = &mut proposal.intent {
            // A generated record names a file that does not exist, and here the file is read.
            let finished = views::finished(office.store(), office.now()?, MessageNo(1))?;
            *archive = office.write_archive(&finished)?;
            archived += usize::from(!finished.conversations.is_empty());
        }
        match office.propose(&proposal, &Rules::none()) {
            Ok(outcome) => {
                generator.learn(&proposal, &outcome);
                if matches!(proposal.intent, Intent::Redact(_)) {
                    office.erase()?; // as `poste redact` does: redacted content is in no file any more
                }
            }
            Err(Error::ClockLeap { leap_ms }) => clock.step_wall(-leap_ms),
            Err(error) => return Err(error.into()),
        }
        if rng.chance(60) {
            search(&office)?;
            refreshed += 1;
        }
    }
    search(&office)?;
    let grown = everything_in(&place)?;
    forget(&Folder::open(&place.path)?)?;
    search(&office)?;
    let made = everything_in(&place)?;
    if grown != made {
        let only = |one: &[Entry], other: &[Entry]| -> Vec<Entry> {
            one.iter().filter(|entry| !other.contains(entry)).cloned().collect()
        };
        let (stale, missing) = (only(&grown, &made), only(&made, &grown));
        return Err(format!("after {refreshed} searches: too much {stale:?}, too little {missing:?}").into());
    }
    if made.len() < 100 || archived == 0 {
        return Err(format!("only {} entries and {archived} archives: this proves nothing", made.len()).into());
    }
    Ok(())
}

fn add_words(content: &mut Content, rng: &mut Rng) {
    let words: Vec<&str> = (0..1 + rng.below(4)).map(|_| *rng.pick(&WORDS)).collect();
    let mut body = std::mem::take(&mut content.body).0;
    body.extend_from_slice(format!("\n{}", words.join(" ")).as_bytes());
    content.body = Body(body);
}

fn search(office: &Office) -> Result<(), Box<dyn std::error::Error>> {
    let (page, refreshed) = views::search(office.store(), &SearchQuery::new("login".parse()?), |_| {})?;
    assert_eq!((page.not_indexed, page.indexed_to), (0, page.as_of));
    assert_eq!(refreshed.rebuilt, None);
    Ok(())
}

/// A token, the message it belongs to, its column and its offset.
type Entry = (String, u64, String, u64);

fn everything_in(place: &Place) -> Result<Vec<Entry>, rusqlite::Error> {
    let conn = Connection::open(place.path.join("search.db"))?;
    conn.execute_batch("CREATE VIRTUAL TABLE temp.entries USING fts5vocab (main, texts, instance)")?;
    let mut statement = conn.prepare("SELECT term, doc, col, offset FROM entries ORDER BY 1, 2, 3, 4")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
}
