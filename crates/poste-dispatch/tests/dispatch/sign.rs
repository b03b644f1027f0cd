use poste_dispatch::notify::sign::{Key, TOLERANCE_S, Unsigned, Weak};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The example from the specification.
#[test]
fn a_signature_is_the_one_others_make() {
    let key = Key::new(SECRET).unwrap();
    let made = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(made, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn only_what_was_signed_just_now_passes() {
    let (now, body) = (1_800_000_000, b"{}".as_slice());
    let key = Key::new(SECRET).unwrap();
    let signature = key.sign("a", now, body);
    let check = |id: &str, at: i64, signature: &str, body: &[u8], now: i64| {
        key.verify(id, &at.to_string(), signature, body, now)
    };
    assert_eq!(check("a", now, &signature, body, now + TOLERANCE_S), Ok(()));
    assert_eq!(check("a", now, &format!("v1,AAAA {signature}"), body, now), Ok(()));
    assert_eq!(check("a", now, &signature, body, now + TOLERANCE_S + 1), Err(Unsigned::Stale));
    assert_eq!(check("a", i64::MIN, &signature, body, now), Err(Unsigned::Stale));
    assert_eq!(check("b", now, &signature, body, now), Err(Unsigned::Wrong));
    assert_eq!(check("a", now + 1, &signature, body, now), Err(Unsigned::Wrong));
    assert_eq!(check("a", now, &signature, b"{ }", now), Err(Unsigned::Wrong));
    assert_eq!(check("a", now, "", body, now), Err(Unsigned::Missing));
    assert_eq!(check("a", now, "v2,xyz", body, now), Err(Unsigned::Missing));
    assert_eq!(
        Key::new("the key of another").unwrap().verify("a", &now.to_string(), &signature, body, now),
        Err(Unsigned::Wrong)
    );
    assert_eq!(key.verify("a", "soon", &signature, body, now), Err(Unsigned::Missing));
}

#[test]
fn a_key_that_could_be_guessed_is_refused() {
    for (secret, why) in [
        ("", Weak::Short(0)),
        ("whsec_", Weak::Short(0)),
        ("fifteen bytes..", Weak::Short(15)),
        ("whsec_c2hvcnQ=", Weak::Short(5)),
        ("whsec_ not base64, but long enough", Weak::Encoding),
    ] {
        assert_eq!(Key::new(secret).unwrap_err(), why, "{secret:?}");
    }
    assert!(Key::new("sixteen bytes...").is_ok());
}
