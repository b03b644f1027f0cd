//! Reserved paths: overlapping ones are refused, and every reservation expires.

use poste_core::fold::{Code, Effect, Rejection, Reserved};
use poste_core::limits;
use poste_core::log::{Clock, Intent, Prolong, Redact, Register, ReservationNo, Reserve, Unreserve};
use poste_core::pattern::{Pattern, Touched};
use poste_core::store::tables::ReservationEnd;
use poste_core::views::{self, ReservationView, ReservationsQuery};
use poste_core::vocabulary::AgentKind;

use crate::common::*;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().expect("a pattern")).collect()
}

/// Releases everything that `holder` holds, and notifies `told`.
fn freed(holder: &str, told: &str) -> Intent {
    let mail = Some(letter(told, "alert"));
    Intent::Unreserve(Unreserve { patterns: Vec::new(), holder: Some(holder.parse().expect("a name")), mail })
}

fn reserved(effect: Effect) -> Vec<Reserved> {
    match effect {
        Effect::Reserved(reserved) => reserved,
        other => panic!("unexpected effect: {other:?}"),
    }
}

impl Desk {
    fn take(&mut self, who: &str, texts: &[&str], for_ms: i64, shared: bool) -> Answer<Vec<Reserved>> {
        let reserve = Reserve { patterns: patterns(texts), for_ms, shared };
        self.say(who, Intent::Reserve(reserve), Some(text("the new login"))).map(reserved)
    }

    fn reserve(&mut self, who: &str, texts: &[&str]) -> Answer<Vec<Reserved>> {
        self.take(who, texts, HOUR, false)
    }

    fn share(&mut self, who: &str, texts: &[&str]) -> Answer<Vec<Reserved>> {
        self.take(who, texts, HOUR, true)
    }

    fn unreserve(&mut self, who: &str, texts: &[&str]) -> Answer<Vec<Reserved>> {
        self.ask(who, Intent::Unreserve(Unreserve { patterns: patterns(texts), holder: None, mail: None }))
            .map(reserved)
    }

    fn unreserve_of(&mut self, who: &str, holder: &str) -> Answer<Vec<Reserved>> {
        self.say(who, freed(holder, holder), Some(text("it waits for nobody"))).map(|effect| match effect {
            Effect::Freed { released, .. } => released,
            other => panic!("unexpected effect: {other:?}"),
        })
    }

    fn prolong(&mut self, who: &str, texts: &[&str], for_ms: i64) -> Answer<Vec<Reserved>> {
        self.ask(who, Intent::Prolong(Prolong { patterns: patterns(texts), for_ms })).map(reserved)
    }

    fn reservations(&self, past: bool) -> Vec<ReservationView> {
        let query = ReservationsQuery { past, limit: 100, ..ReservationsQuery::default() };
        views::reservations(self.office.store(), &query).expect("they can be listed").reservations
    }

    /// The reservations as `HOLDER PATTERN`.
    fn held(&self) -> Vec<String> {
        self.reservations(false).iter().map(|held| format!("{} {}", held.holder, held.pattern)).collect()
    }
}

fn refused<T: std::fmt::Debug>(answer: Answer<T>, code: Code) -> Rejection {
    let rejection = answer.expect_err("it is refused");
    assert_eq!(rejection.code, code, "{rejection}");
    rejection
}

#[test]
fn what_overlaps_is_refused_with_holder_pattern_and_time() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.reserve("ann", &["src/auth/**"]));
    let rejection = refused(desk.reserve("bob", &["docs", "src/*/login.rs"]), Code::Reserved);
    let until = desk.reservations(false)[0].until;
    assert_eq!(rejection.reason, format!("ann holds src/auth/** until {until}, which overlaps src/*/login.rs"));
    assert_eq!(desk.held(), ["ann src/auth/**"], "all of it, or nothing");
    accepted(desk.reserve("bob", &["docs", "src/api/**"]));
    assert_eq!(desk.held(), ["bob docs", "bob src/api/**", "ann src/auth/**"]);
}

#[test]
fn a_refusal_names_some_and_counts_the_rest() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.reserve("ann", &["a", "b", "c", "d", "e"]));
    let reason = refused(desk.reserve("bob", &["**"]), Code::Reserved).reason;
    assert!(reason.starts_with("ann holds a until ") && reason.ends_with("; and 2 more"), "{reason}");
}

#[test]
fn those_who_share_do_not_stand_in_each_others_way() {
    let mut desk = Desk::with(&["ann", "bob", "cy"]);
    accepted(desk.share("ann", &["docs/**"]));
    accepted(desk.share("bob", &["docs/guide.md"]));
    let reason = refused(desk.reserve("cy", &["docs"]), Code::Reserved).reason;
    assert!(reason.starts_with("ann shares docs/** until "), "{reason}");
    accepted(desk.unreserve("ann", &["docs/**"]));
    accepted(desk.unreserve("bob", &["docs/guide.md"]));
    accepted(desk.reserve("cy", &["docs"]));
    refused(desk.share("ann", &["docs/**"]), Code::Reserved);
}

#[test]
fn nobody_stands_in_their_own_way_and_taking_again_counts_anew() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let first = accepted(desk.reserve("ann", &["src/**"]));
    accepted(desk.reserve("ann", &["src/a.rs"]));
    desk.pass(30 * MINUTE);
    let again = accepted(desk.reserve("ann", &["src/**"]));
    assert_eq!((again[0].number, again[0].until), (first[0].number, first[0].until.plus_ms(30 * MINUTE)));
    desk.pass(31 * MINUTE);
    assert_eq!(desk.held(), ["ann src/**"], "the other one has expired");
    // A shared reservation becomes exclusive only if no other agent shares it.
    accepted(desk.share("ann", &["docs"]));
    accepted(desk.share("bob", &["docs/x"]));
    refused(desk.reserve("ann", &["docs"]), Code::Reserved);
    accepted(desk.unreserve("bob", &[]));
    assert!(!accepted(desk.reserve("ann", &["docs"]))[0].shared);
}

#[test]
fn a_reservation_ends_with_its_time_and_stays_known() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.reserve("ann", &["src/**"]))[0].number;
    desk.pass(HOUR - 1);
    refused(desk.reserve("bob", &["src/a"]), Code::Reserved);
    desk.pass(1);
    assert!(desk.held().is_empty());
    let taken = accepted(desk.reserve("bob", &["src/a"]));
    assert_ne!(taken[0].number, number, "a number is never given twice");
    let past = &desk.reservations(true)[1];
    assert_eq!((past.number, past.ended.as_ref().map(|end| end.reason)), (number, Some(ReservationEnd::Expired)));
    let why = views::why_reservation(desk.office.store(), number).unwrap().unwrap();
    let lines: Vec<&str> = why.lines.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(lines[0], "reserved, exclusive: the new login");
    assert!(lines[1].starts_with("expired at "), "{lines:?}");
    assert!(views::why_reservation(desk.office.store(), ReservationNo(99)).unwrap().is_none());
}

#[test]
fn it_can_be_kept_longer_and_released_by_pattern_or_altogether() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.reserve("ann", &["a", "b", "c"]));
    let until = accepted(desk.prolong("ann", &["b"], 3 * HOUR))[0].until;
    assert_eq!(until, desk.now().plus_ms(3 * HOUR));
    assert_eq!(accepted(desk.prolong("ann", &["b"], HOUR))[0].until, until, "longer, never shorter");
    refused(desk.prolong("ann", &["b", "x"], HOUR), Code::NotReserved);
    refused(desk.prolong("bob", &[], HOUR), Code::NotReserved);
    accepted(desk.unreserve("ann", &["a"]));
    refused(desk.unreserve("ann", &["a"]), Code::NotReserved);
    assert_eq!(accepted(desk.prolong("ann", &[], 2 * HOUR)).len(), 2);
    desk.pass(HOUR + MINUTE);
    assert_eq!(desk.held(), ["ann b", "ann c"]);
    assert_eq!(accepted(desk.unreserve("ann", &[])).len(), 2);
    assert!(desk.held().is_empty());
    refused(desk.unreserve("ann", &[]), Code::NotReserved);
}

#[test]
fn only_the_holder_its_lead_or_a_human_lets_go() {
    let mut desk = Desk::with(&["lead", "bob"]);
    desk.register("ann", Register { lead: Some("lead".parse().unwrap()), ..agent() });
    desk.register("eve", Register { kind: Some(AgentKind::Human), ..agent() });
    for who in ["lead", "eve"] {
        accepted(desk.reserve("ann", &["src"]));
        let reason = refused(desk.unreserve_of("bob", "ann"), Code::NotAllowed).reason;
        assert_eq!(reason, "only ann, its lead lead or a human may release what ann reserved");
        accepted(desk.unreserve_of(who, "ann"));
        assert!(desk.held().is_empty(), "{who}");
    }
    refused(desk.unreserve_of("eve", "ghost"), Code::UnknownAgent);
}

#[test]
fn whose_paths_another_one_frees_is_told_once() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.register("eve", Register { kind: Some(AgentKind::Human), ..agent() });
    accepted(desk.reserve("ann", &["src"]));
    let silent = Unreserve { patterns: Vec::new(), holder: Some("ann".parse().unwrap()), mail: None };
    refused(desk.ask("eve", Intent::Unreserve(silent)), Code::Malformed);
    for told in ["bob", "ann bob"] {
        refused(desk.say("eve", freed("ann", told), Some(text("why"))), Code::Malformed);
    }
    refused(desk.say("ann", freed("ann", "ann"), Some(text("why"))), Code::Malformed);
    assert_eq!(desk.held(), ["ann src"]);

    let free = desk.proposal("eve", freed("ann", "ann"), Some(text("why")));
    let done = accepted(desk.outcome(&free).verdict.accepted());
    let Effect::Freed { released, message } = &done else { panic!("unexpected effect: {done:?}") };
    assert_eq!(released[0].pattern.as_str(), "src");
    assert_eq!(desk.deliveries(*message)[0].address.to_string(), "ann");
    accepted(desk.reserve("ann", &["src"]));
    let again = desk.outcome(&free);
    assert!(again.repeat);
    assert_eq!(accepted(again.verdict.accepted()), done);
    assert_eq!(desk.held(), ["ann src"], "a repeat releases nothing again");
}

#[test]
fn whoever_retires_lets_go() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.reserve("ann", &["src", "docs"]));
    accepted(desk.retire("bob", "ann"));
    assert!(desk.held().is_empty());
    accepted(desk.reserve("bob", &["src/a", "docs"]));
    let reasons: Vec<_> = desk.reservations(true).iter().filter_map(|one| Some(one.ended.as_ref()?.reason)).collect();
    assert_eq!(reasons, [ReservationEnd::Retired; 2]);
    refused(desk.reserve("ann", &["x"]), Code::Retired);
}

#[test]
fn nobody_loses_a_reservation_to_a_clock() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let until = accepted(desk.reserve("ann", &["src"]))[0].until;
    accepted(desk.ask("bob", Intent::Clock(Clock { leap_ms: 5 * HOUR })));
    assert_eq!(desk.reservations(false)[0].until, until.plus_ms(5 * HOUR));
    desk.pass(6 * HOUR);
    assert!(desk.held().is_empty());
}

#[test]
fn a_repeat_has_no_second_effect_and_tells_what_stands() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let reserve = Intent::Reserve(Reserve { patterns: patterns(&["a", "b"]), for_ms: HOUR, shared: false });
    let reserve = desk.proposal("ann", reserve, None);
    let taken = reserved(accepted(desk.outcome(&reserve).verdict.accepted()));
    desk.pass(MINUTE);
    let again = desk.outcome(&reserve);
    assert!(again.repeat);
    assert_eq!(reserved(accepted(again.verdict.accepted())), taken);

    let release = Intent::Unreserve(Unreserve { patterns: patterns(&["a"]), holder: None, mail: None });
    let release = desk.proposal("ann", release, None);
    let released = reserved(accepted(desk.outcome(&release).verdict.accepted()));
    assert_eq!(reserved(accepted(desk.outcome(&release).verdict.accepted())), released);
    let standing = reserved(accepted(desk.outcome(&reserve).verdict.accepted()));
    assert_eq!(standing, taken[1..], "a released pattern is not reserved again");
    accepted(desk.reserve("bob", &["a"]));
}

#[test]
fn what_is_out_of_range_is_refused() {
    let mut desk = Desk::with(&["ann"]);
    for for_ms in [i64::MIN, 0, limits::LEASE_MS_MIN - 1, limits::RESERVATION_MS_MAX + 1, i64::MAX] {
        refused(desk.take("ann", &["a"], for_ms, false), Code::TimeOutOfRange);
        refused(desk.prolong("ann", &["a"], for_ms), Code::TimeOutOfRange);
    }
    refused(desk.reserve("ann", &[]), Code::Malformed);
    let names: Vec<String> = (0..=limits::RESERVE_MAX).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    refused(desk.reserve("ann", &names), Code::Malformed);
    refused(desk.unreserve("ann", &names), Code::Malformed);
    refused(desk.reserve("ghost", &["a"]), Code::UnknownAgent);
    assert_eq!(accepted(desk.reserve("ann", &["a", "a"])).len(), 1, "a repeated pattern counts once");
}

#[test]
fn one_agent_holds_so_many_and_no_more() {
    let mut desk = Desk::with(&["ann"]);
    for chunk in 0..limits::RESERVATIONS_MAX / 50 {
        let names: Vec<String> = (0..50).map(|number| format!("d{chunk}/f{number}")).collect();
        accepted(desk.reserve("ann", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    refused(desk.reserve("ann", &["one/more"]), Code::TooLarge);
    accepted(desk.reserve("ann", &["d0/f0"]));
}

#[test]
fn what_costs_too_much_to_compare_is_refused_and_accuses_nobody() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let stars = |c: char, number: usize| format!("{}{number}", format!("*{c}").repeat(500));
    let held: Vec<String> = (0..60).map(|number| stars('a', number)).collect();
    accepted(desk.reserve("ann", &held.iter().map(String::as_str).collect::<Vec<_>>()));
    let wanted: Vec<String> = (0..60).map(|number| format!("{}x", stars('b', number))).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let reason = refused(desk.reserve("bob", &wanted), Code::TooLarge).reason;
    assert!(reason.contains("takes too long"), "{reason}");
    accepted(desk.reserve("bob", &["docs"]));
}

#[test]
fn a_reason_that_was_erased_is_said_to_be() {
    let mut desk = Desk::with(&["ann"]);
    accepted(desk.reserve("ann", &["src"]));
    assert_eq!(desk.reservations(false)[0].why.as_deref(), Some("the new login"));
    let redact = Redact { records: vec![desk.head()] };
    accepted(desk.say("ann", Intent::Redact(redact), Some(text("too much said"))));
    desk.office.erase().unwrap();
    let held = &desk.reservations(false)[0];
    assert_eq!((held.why.as_deref(), held.redacted), (None, true));
    let why = views::why_reservation(desk.office.store(), held.number).unwrap().unwrap();
    assert_eq!(why.lines[0].what, "reserved, exclusive: redacted");
}

#[test]
fn paths_are_found_by_who_holds_them_alone() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.reserve("ann", &["src/auth/**", "**/*.lock"]));
    accepted(desk.share("ann", &["docs/**"]));
    let touched =
        ["src/auth/a.rs", "src/api/b.rs", "sub/x.lock", "docs/a.md"].map(|path| Touched::file(path.as_bytes()));
    let held = |except: Option<&str>, now| {
        let except = except.map(|name| name.parse().unwrap());
        let found = views::held_paths(desk.office.store(), &touched, except.as_ref(), now).unwrap();
        found.into_iter().map(|held| held.path).collect::<Vec<_>>()
    };
    assert_eq!(held(Some("bob"), desk.now()), ["src/auth/a.rs", "sub/x.lock"], "a shared reservation blocks no agent");
    assert_eq!(held(None, desk.now()), ["src/auth/a.rs", "sub/x.lock"]);
    assert!(held(Some("ann"), desk.now()).is_empty());
    assert!(held(Some("bob"), desk.now().plus_ms(HOUR)).is_empty(), "it has expired, with or without a tick");
}

#[test]
fn the_index_finds_what_comparing_everything_finds() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let held = ["a/b/c", "a/b/*", "a/**", "*/b", "a?", "ab", "a/bc/d", "é/x", "{a,b}/q", "z", "a/b/c/d/**"];
    accepted(desk.reserve("ann", &held));
    for wanted in ["a/b/c/d", "a/b", "a", "**", "ab", "a/bc", "é", "b/q", "z/y", "zz", "q/b", "a/b/cc", "[a-z]*"] {
        let wanted: Pattern = wanted.parse().unwrap();
        let name = "bob".parse().unwrap();
        let found = views::reservation_conflicts(desk.office.store(), &name, std::slice::from_ref(&wanted), false);
        let found: Vec<String> = found.unwrap().iter().map(|conflict| conflict.held.pattern.to_string()).collect();
        let mut effort = poste_core::pattern::Effort::new(u64::MAX);
        let mut expected = patterns(&held);
        expected.retain(|held| wanted.overlaps(held, &mut effort));
        let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let mut sorted = found.clone();
        expected.sort();
        sorted.sort();
        assert_eq!(sorted, expected, "{wanted}");
    }
}
