//! The tour of README.md, as its readers take it.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    harness::{World, finish},
    proxy::free_address,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_of_the_readme_goes_as_it_says() {
    let world = World::new().await;
    let folder = Folder::new(&world);

    let mut bash = Command::new("timeout");
    bash.args(["--kill-after=10", "150", "bash", "tour.sh"])
        .current_dir(&folder.0)
        .env_clear()
        .env("PATH", folder.path());
    let tour = finish(bash);

    let told = &tour.stdout;
    assert_eq!(
        tour.code,
        Some(0),
        "{told}\n{}\n{}",
        tour.stderr,
        folder.log()
    );
    let in_order = [
        r#""status":"ready""#,
        r#""status":"ready""#,
        r#""status":"open""#,
        r#"{"status":"accepted"}"#,
        r#"{"status":"accepted"}"#,
        r#"{"status":"accepted"}"#,
        r#"{"status":"accepted"}"#,
        r#"{"status":"accepted"}"#,
        r#"{"status":"accepted"}"#,
        r#""participation":"joined""#,
        r#""eligibility":"eligible""#,
        r#""result":"notDrawn""#,
        "on\"",
        r#""seat":1,"#,
        r#""Headphones""#,
        r#""seat":2,"#,
        r#""Coupon""#,
        r#""seat":3,"#,
    ];
    let mut rest = told.as_str();
    for text in in_order {
        let (_, behind) = rest
            .split_once(text)
            .unwrap_or_else(|| panic!("{text} is not where it should be in\n{told}"));
        rest = behind;
    }
    assert_eq!(told.matches("\"seat\"").count(), 3, "{told}");
    assert_eq!(told.matches("accepted").count(), 6, "{told}");
    assert!(
        told.contains(r#""result":"won""#) || told.contains(r#""result":"notWon""#),
        "{told}"
    );
    world.end().await;
}

/// What the tour finds where the project should be: this binary as the one that it builds, and the
/// servers of this test as the ones that it starts. The tour itself is run as it stands.
struct Folder(PathBuf);

impl Folder {
    fn new(world: &World) -> Self {
        let name = format!("luckybag-tour-{:016x}", rand::random::<u64>());
        let folder = Self(std::env::temp_dir().join(name));
        for part in ["bin", "scripts", "target/debug"] {
            fs::create_dir_all(folder.0.join(part)).expect("a folder");
        }
        let built = folder.0.join("target/debug/luckybag");
        symlink(env!("CARGO_BIN_EXE_luckybag"), built).expect("a link to the binary");
        folder.script("bin/cargo", "exit 0\n");
        folder.script("scripts/services", &services(world));
        folder.script("tour.sh", &tour());
        folder
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{text}")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("an executable script");
    }

    fn path(&self) -> String {
        let programs = std::env::var("PATH").expect("a PATH");
        assert!(
            std::env::split_paths(&programs).any(|folder| folder.join("curl").exists()),
            "curl is not installed, and the tour of README.md needs it"
        );
        format!("{}:{programs}", self.0.join("bin").display())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.join("serve.log")).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// In place of scripts/services: the servers run already, and stay.
fn services(world: &World) -> String {
    let mut variables = world.variables();
    // The reader has the defaults, but for the address.
    variables.retain(|(name, _)| !name.contains("REVIEW_REQUIRED"));
    for (name, value) in &mut variables {
        if name == "LUCKYBAG__SERVER__BIND" {
            *value = free_address().to_string();
        }
    }
    let mut script = String::from("[[ $1 == env ]] || exit 0\ncat <<'END'\n");
    for (name, value) in variables {
        writeln!(script, "export {name}='{value}'").expect("a line");
    }
    script.push_str("END\n");
    script
}

/// The commands of the tour, which must not leave the service behind when one of them fails.
fn tour() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(readme).expect("README.md");
    let (_, section) = text
        .split_once("\n## Five minutes with curl\n")
        .expect("the section of the tour");
    let (section, _) = section.split_once("\n## ").expect("a section behind it");
    let blocks: Vec<&str> = section
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 4, "{section}");
    let mut script =
        String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n");
    script.push_str(&blocks.concat());
    script
}
