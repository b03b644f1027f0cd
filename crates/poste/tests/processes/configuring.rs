use crate::common::{Desk, finish};

#[test]
fn changes_of_poste_toml_at_once_lose_nothing() {
    let desk = Desk::new(&["lead"]);
    std::fs::write(desk.folder.path().join("poste.toml"), "# ours\n").unwrap();
    let keys: Vec<String> = (0..20).map(|n| format!("types.kind_{n}.priority")).collect();
    let children = keys.iter().map(|key| desk.spawn(&["config", "set", key, "high"])).collect();
    for output in finish(children) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(desk.folder.path().join("poste.toml")).unwrap();
    assert!(text.starts_with("# ours\n"));
    for n in 0..20 {
        assert!(text.contains(&format!("[types.kind_{n}]")), "kind_{n} is lost: {text}");
    }
    assert_eq!(desk.json(&["config", "show"])["standing"], "in_force");
    desk.verify();
}
