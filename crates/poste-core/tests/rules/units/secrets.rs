//! What looks like a secret, and what does not.

use poste_core::log::{Body, Content};
use poste_core::secrets::{Finding, find};

/// The most findings that are reported.
const FINDINGS_MAX: usize = 5;

fn find_in(bytes: &[u8]) -> Vec<Finding> {
    find(&Content { body: Body(bytes.to_vec()), ..Content::default() })
}

fn kinds(text: &str) -> Vec<&'static str> {
    find_in(text.as_bytes()).iter().map(|finding| finding.what).collect()
}

/// Random letters and digits, generated so that no secret scanner reports this file.
fn random(length: usize) -> String {
    let alphabet = b"q7RkZ2mWx9LpT4vBn8CsY6hDj3FgKe5AuXi1";
    let mut state = 12_345_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(alphabet[(state >> 16) as usize % alphabet.len()])
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn secrets_of_every_kind_are_found() {
    let upper = random(40).to_ascii_uppercase();
    let cases = [
        (format!("use ghp_{} for it", random(36)), "a GitHub token"),
        (format!("GITHUB_TOKEN=ghs_{}", random(36)), "a GitHub token"),
        (format!("github_pat_{}_{}", random(22), random(59)), "a GitHub token"),
        (format!("`glpat-{}`", random(20)), "a GitLab token"),
        (format!("slack: xoxb-{}-{}", "123456789012", random(24)), "a Slack token"),
        (format!("sk-ant-api03-{}", random(80)), "an Anthropic key"),
        (format!("sk-proj-{}", random(48)), "an OpenAI key"),
        (format!("OPENAI: sk-{}", random(48)), "an OpenAI key"),
        (format!("sk_live_{}", random(24)), "a Stripe key"),
        (format!("AIza{}", random(35)), "a Google key"),
        (format!("AKIA{}", &upper[..16]), "an AWS access key"),
        (format!("npm_{}", random(36)), "an npm token"),
        (format!("Bearer eyJ{}.eyJ{}.{}", random(20), random(40), random(43)), "a web token (JWT)"),
        (format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", random(64)), "a private key"),
        (format!("{}\n-----END RSA PRIVATE KEY-----", random(64)), "a private key"),
        (format!("-----BEGIN OPENSSH PRIVATE KEY-----\\n{}", random(70)), "a private key"),
        (format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}", random(64)), "a private key"),
        (format!("postgres://app:{}@db.internal:5432/main", random(12)), "a password in an address"),
        ("redis://:hunter22@cache".to_owned(), "a password in an address"),
        ("amqps://worker:Blau3Kuh@mq/vhost".to_owned(), "a password in an address"),
        ("password=Tr0ub4dor&3".to_owned(), "a password or key"),
        ("DB_PASSWORD: 'k9Xw2mQ7'".to_owned(), "a password or key"),
        (format!("{{\"api_key\": \"{}\"}}", random(20)), "a password or key"),
        (format!("{{\\\"client_secret\\\":\\\"{}\\\"}}", random(20)), "a password or key"),
        (format!("aws_secret_access_key = {}", random(40)), "a password or key"),
        (format!("X-Api-Key: {}", random(32)), "a password or key"),
        (format!("curl 'https://x/y?token={}&a=b'", random(24)), "a password or key"),
    ];
    for (text, what) in cases {
        assert_eq!(kinds(&text).first(), Some(&what), "{text}");
        assert_eq!(kinds(&format!("Ünïcode before it — {text}\nand after")).first(), Some(&what), "{text}");
    }
}

#[test]
fn a_whole_key_is_one() {
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", random(64));
    assert_eq!(kinds(&key), ["a private key"]);
}

#[test]
fn ordinary_text_is_left_alone() {
    let base64_image = format!("![plot](data:image/png;base64,{}==)", random(4_000));
    let cases = [
        "The token ring is slow; please look at the password form and the secret santa list.",
        "password: see the vault, entry 12",
        "password = getpass.getpass()",
        "password=os.environ['DB_PASSWORD1']",
        "let token = Position(40); let secret: Option<String> = None;",
        "token: 40, lease ends in 10m",
        "finish it: poste done 12 --token 40 --summary TEXT",
        "if password == expected1234567890 {",
        "API_KEY=$API_KEY_2024 SECRET=${SECRET_1} TOKEN=<your-token-1234567890>",
        "api_key: YOUR_API_KEY_HERE_1234",
        "password: changeme1, password: xxxxxxxxxxxx1, secret: ************1a",
        "token=REDACTED123456789",
        "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
        "private_key: /etc/ssl/private/server1/key2/poste3.pem",
        "token: 0190b5a2-7c1e-7a3b-9d4e-111111111111",
        "commit 852528ba1c0de5f00d1234567890abcdef123456 fixes it",
        "BLAKE3 3fa9c0d1b2ee4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c",
        "id: 0190b5a2-7c1e-7a3b-9d4e-111111111111, session sk-1, task-1234567890abcdefABCDEF1234567890abcd",
        "the risk-assessment-2024-Q3-final-version-12-for-review of disk-encryption-at-rest-2024",
        "class=\"sk-circle-fade-dot-12 sk-chase\" data-token-count=\"12345678901234567890\"",
        "postgres://user:password@localhost/db and mysql://root:root@localhost and http://localhost:8080/@scope/x",
        "git clone ssh://git@example.com:2222/a/b.git; see https://docs.rs/tokio@1.54.1",
        "https://user:$PASSWORD@host and https://user:<password>@host and https://user:***@host",
        "AKIAIOSFODNN7EXAMPLE is the key of the documentation",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYD\n-----END CERTIFICATE-----",
        "A file that starts with -----BEGIN PRIVATE KEY----- must not be committed.",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1vqk2Zb6Yt0mWx9LpT4vBn8CsY6hDj3FgKe5Au anna@desk",
        "eyJhbGciOiJIUzI1NiJ9 is only a header",
        "max_tokens=4096 tokens: 128000 token_count=1234567890123456",
        "fn token(text: &[u8]) -> Option<Token<'a, Utf8Error2>> { self.token::<Abc123Def456Ghi789>() }",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "secret_name: prod-db-2024, password_hash: see users table, token_url: https://auth.internal/oauth2/token1",
        "\"tokenizer\": \"cl100k_base_2024_long_name\"",
        base64_image.as_str(),
        "",
        "=",
        "password=",
        "://@:",
        "eyJ",
        "_-=:A.J",
    ];
    for text in cases {
        assert_eq!(kinds(text), Vec::<&str>::new(), "{text}");
    }
}

/// The repository's own prose and code is typical of what agents send each other.
#[test]
fn our_own_pages_and_code_raise_no_alarm() {
    for (name, text) in [
        ("configuration.md", include_str!("../../../../../docs/configuration.md")),
        ("claims.md", include_str!("../../../../../docs/claims.md")),
        ("deliveries.md", include_str!("../../../../../docs/deliveries.md")),
        ("log.md", include_str!("../../../../../docs/log.md")),
        ("0008-lease-tokens.md", include_str!("../../../../../docs/adr/0008-lease-tokens.md")),
        ("0010-identity-and-network.md", include_str!("../../../../../docs/adr/0010-identity-and-network.md")),
        ("finish.rs", include_str!("../../../src/fold/finish.rs")),
        ("claim.rs", include_str!("../../../src/fold/claim.rs")),
        ("deliveries.rs", include_str!("../../../src/store/tables/deliveries.rs")),
        ("secrets.rs", include_str!("../../../src/secrets.rs")),
        ("Cargo.lock", include_str!("../../../../../Cargo.lock")),
    ] {
        assert_eq!(kinds(text), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn a_finding_says_where_and_never_what() {
    let secret = random(36);
    let content = Content {
        subject: "Hello".to_owned(),
        body: format!("one\nzwö ghp_{secret}\n").as_str().into(),
        metadata: [("api_key".to_owned(), random(24))].into(),
        summary: Some(format!("password={}", random(16))),
        ..Content::default()
    };
    let found = find(&content);
    let places: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        places,
        [
            "a GitHub token in the body, line 2, column 5",
            "a password or key in the summary, line 1, column 1",
            "a password or key in the metadata api_key, line 1, column 1",
        ]
    );
    assert!(!format!("{found:?}").contains(&secret[..8]));
}

#[test]
fn no_more_is_said_than_anybody_reads_and_bytes_that_are_no_text_are_no_trouble() {
    let many = format!("ghp_{}\n", random(36)).repeat(100);
    assert_eq!(kinds(&many).len(), FINDINGS_MAX);
    let mut bytes = vec![0xff, 0xfe, b'=', 0x80];
    bytes.extend(format!("ghp_{}", random(36)).bytes());
    assert_eq!(find_in(&bytes).len(), 1);
    for length in 0..200 {
        find_in(&many.as_bytes()[..length]);
        find_in(&many.as_bytes()[length..]);
    }
}
