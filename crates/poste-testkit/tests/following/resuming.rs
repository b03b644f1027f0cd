//! A verb that tried more than once is resumed under its id, also where the log keeps what it refused.

use poste_core::Office;
use poste_core::log::Via;
use poste_verbs::caller::Ids;
use poste_verbs::{Caller, Desk, Files, Host, Verb, agree, context, reply, send};
use serde_json::{Value, json};

use crate::world::World;

/// Calls a verb the way a surface does, with JSON, and answers with JSON.
fn call<V: Verb>(office: &mut Office, actor: &str, input: Value) -> Value {
    let caller = Caller { actor: Some(actor.parse().unwrap()), session: None, via: Via::Cli, files: Files::none() };
    let host = Host { ids: Ids::default(), program: None, run: None };
    let input: V = serde_json::from_value(input).unwrap();
    let answered = Desk::new(office, &caller, &host).call(input).unwrap();
    serde_json::to_value(&answered.answer).unwrap()
}

#[test]
fn a_merge_that_was_refused_first_is_one_merge_however_often_it_is_repeated() {
    let (_world, mut one, mut two) = World::with(&["ann", "bob"]);
    let text = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n{last}\n");
    call::<context::create::Input>(&mut one, "ann", json!({ "name": "notes", "text": text("1", "6") }));
    let theirs = json!({ "name": "notes", "text": text("one", "6"), "if_version": 1 });
    call::<context::replace::Input>(&mut one, "ann", theirs);

    two.follow().unwrap();
    let mine = json!({ "name": "notes", "text": text("1", "six"), "if_version": 1, "merge": true, "id": "mine" });
    let first = call::<context::replace::Input>(&mut two, "bob", mine.clone());
    assert_eq!((&first["version"], &first["merged"], &first["repeat"]), (&json!(3), &json!(true), &json!(false)));
    assert_eq!(first["id"], "mine/2", "the log keeps the first try, under its id");
    for office in [&mut two, &mut one] {
        office.follow().unwrap();
        let again = call::<context::replace::Input>(office, "bob", mine.clone());
        assert_eq!((&again["version"], &again["repeat"]), (&json!(3), &json!(true)));
        let shown = call::<context::show::Input>(office, "ann", json!({ "name": "notes" }));
        assert_eq!((&shown["text"], &shown["version"]), (&json!(text("one", "six")), &json!(3)));
    }
}

#[test]
fn agreeing_after_the_delivery_ended_is_said_once_and_written_down_once() {
    let (_world, mut one, mut two) = World::with(&["ann", "bob"]);
    call::<context::create::Input>(&mut one, "ann", json!({ "name": "api" }));
    let proposal = json!({
        "to": ["bob"], "subject": "IUser", "type": "interface_contract", "payload": { "interface": "IUser" },
    });
    let number = call::<send::Input>(&mut one, "ann", proposal)["number"].clone();
    call::<reply::Input>(&mut one, "bob", json!({ "number": number, "body": "I will look.", "done": true }));

    let yes = json!({ "number": number, "context": "api", "id": "yes" });
    let first = call::<agree::Input>(&mut one, "bob", yes.clone());
    assert_eq!((&first["repeat"], &first["version"]["version"]), (&json!(false), &json!(2)), "{first}");
    for office in [&mut one, &mut two] {
        office.follow().unwrap();
        let again = call::<agree::Input>(office, "bob", yes.clone());
        assert_eq!((&again["message"], &again["repeat"]), (&first["message"], &json!(true)), "{again}");
        let shown = call::<context::show::Input>(office, "ann", json!({ "name": "api" }));
        assert_eq!(shown["version"], 2);
    }
}
