use poste_dispatch::notify::sign::{TOLERANCE_S, Unsigned, sign, verify};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The example from the specification.
#[test]
fn a_signature_is_the_one_others_make() {
    let made = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(made.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
}

#[test]
fn only_what_was_signed_just_now_passes() {
    let (now, body) = (1_800_000_000, b"{}".as_slice());
    let signature = sign(SECRET, "a", now, body).unwrap();
    let check = |id: &str, at: i64, signature: &str, body: &[u8], now: i64| {
        verify(SECRET, id, &at.to_string(), signature, body, now)
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
    assert_eq!(verify("other", "a", &now.to_string(), &signature, body, now), Err(Unsigned::Wrong));
    assert_eq!(verify(SECRET, "a", "soon", &signature, body, now), Err(Unsigned::Missing));
}
