use poste_dispatch::ingest::{Request, Unfit, webhook};
use poste_dispatch::notify::sign::{Key, Unsigned};

const NOW: i64 = 1_800_000_000;

fn headers(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_signed_request_is_read() {
    let body = br#"{"commonAnnotations":{"summary":"Disk full"},"status":"firing","n":1.10}"#;
    let key = Key::new("s3cret-of-the-hook").unwrap();
    let signature = key.sign("evt-1", NOW, body);
    let given =
        headers(&[("Webhook-Id", "evt-1"), ("WEBHOOK-TIMESTAMP", "1800000000"), ("webhook-signature", &signature)]);
    let read = webhook(Request { body, headers: &given, now_s: NOW }, Some(&key)).unwrap();
    assert_eq!((read.subject.as_str(), read.key.as_deref()), ("Disk full", Some("evt-1")));
    assert_eq!(read.payload.unwrap().get().as_bytes(), body, "no number is rounded");
    assert_eq!(read.metadata["signed"], "yes");
    let wrong = webhook(Request { body: b"{}", headers: &given, now_s: NOW }, Some(&key));
    assert_eq!(wrong.unwrap_err(), Unfit::Unsigned(Unsigned::Wrong));
    let bare = webhook(Request { body, headers: &[], now_s: NOW }, Some(&key));
    assert_eq!(bare.unwrap_err(), Unfit::Unsigned(Unsigned::Missing));
}

#[test]
fn what_is_no_json_is_a_text() {
    let of = |body: &[u8]| webhook(Request { body, headers: &[], now_s: NOW }, None);
    let read = of(b"\nDisk full\non db1\n").unwrap();
    assert_eq!((read.subject.as_str(), read.payload.is_none(), read.key), ("Disk full", true, None));
    let deep = "[".repeat(120) + &"]".repeat(120);
    assert!(of(deep.as_bytes()).unwrap().payload.is_none());
    let deeper = "[".repeat(200_000);
    assert!(of(deeper.as_bytes()).unwrap().payload.is_none());
    assert_eq!(of(b"  ").unwrap_err(), Unfit::Empty);
}
