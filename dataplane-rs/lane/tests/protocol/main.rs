//! The protocol scripts, with the real producer and a consumer played by hand.
//!
//! The control plane's test runs the same scripts the other way round; both print the same.

mod consumer;
mod script;

use std::path::Path;

#[test]
fn every_script_prints_what_it_says() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shm-abi/testdata/protocol");
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", dir.display());
    let rewrite = std::env::var_os("SLUICE_REWRITE").is_some();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let got = script::run(&name, &text);
        if rewrite {
            std::fs::write(&path, got).unwrap();
            continue;
        }
        let mut lines = text.lines().zip(got.lines()).enumerate();
        if let Some((n, (script, this))) = lines.find(|(_, (script, this))| script != this) {
            panic!(
                "{name}, line {}: the script says\n  {script}\nthis side says\n  {this}",
                n + 1
            );
        }
        assert_eq!(text, got, "{name}");
    }
}
