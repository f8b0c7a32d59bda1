//! Holds the imports between modules to the table in ARCHITECTURE.md.

#[cfg(test)]
mod imports {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
    };

    const BASE: &[&str] = &["kernel", "settings", "telemetry", "infra", "http"];

    /// What each module may import beside itself.
    fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let on_base = |features: &[&'static str]| BASE.iter().chain(features).copied().collect();
        let features = ["activity", "candidate", "join", "winners", "draw"];
        let all = [&features[..], &["notifications", "sweeper", "admin_copy"]].concat();
        BTreeMap::from([
            ("kernel", BTreeSet::new()),
            ("settings", BTreeSet::from(["kernel"])),
            ("telemetry", BTreeSet::from(["kernel", "settings"])),
            ("infra", BTreeSet::from(["kernel", "settings", "telemetry"])),
            (
                "http",
                BTreeSet::from(["kernel", "settings", "telemetry", "infra"]),
            ),
            ("activity", on_base(&[])),
            ("winners", on_base(&["activity"])),
            ("candidate", on_base(&["activity", "winners"])),
            ("join", on_base(&["activity", "candidate"])),
            ("draw", on_base(&["activity", "candidate", "winners"])),
            ("notifications", on_base(&features)),
            ("admin_copy", on_base(&features)),
            (
                "sweeper",
                on_base(&[&features[..], &["notifications"]].concat()),
            ),
            ("app", on_base(&all)),
        ])
    }

    fn rust_files(folder: &Path) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(folder).unwrap_or_else(|_| panic!("{} is a folder", folder.display()));
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .flat_map(|path| match path.extension() {
                _ if path.is_dir() => rust_files(&path),
                Some(extension) if extension == "rs" => vec![path],
                Some(_) | None => vec![],
            })
            .collect()
    }

    /// The modules that `code` names behind `crate::`, also in a braced list.
    fn imported_modules(code: &str) -> BTreeSet<String> {
        let mut modules = BTreeSet::new();
        for (start, _) in code.match_indices("crate::") {
            let rest = &code[start + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(list) => modules.extend(top_level_names(list)),
                None => modules.extend(first_name(rest)),
            }
        }
        modules
    }

    fn first_name(text: &str) -> Option<String> {
        let name: String = text
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        (!name.is_empty()).then_some(name)
    }

    /// The names at the first level of `a::b, c::{d, e}, f}`.
    fn top_level_names(list: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut depth = 0_u32;
        let mut item = String::new();
        for c in list.chars() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.extend(first_name(std::mem::take(&mut item).trim_start()));
                }
                _ if depth == 0 => item.push(c),
                _ => (),
            }
        }
        names.extend(first_name(item.trim_start()));
        names
    }

    fn code_of(file: &Path) -> String {
        let text = fs::read_to_string(file).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn modules_import_only_what_they_may_know() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut offences = BTreeSet::new();

        for (module, allowed) in allowed() {
            for file in rust_files(&src.join(module)) {
                for imported in imported_modules(&code_of(&file)) {
                    if imported != module && !allowed.contains(imported.as_str()) {
                        let file = file.strip_prefix(&src).unwrap().display();
                        offences.insert(format!("{file}: `{module}` must not import `{imported}`"));
                    }
                }
            }
        }

        assert!(offences.is_empty(), "{offences:#?}");
    }

    #[test]
    fn every_module_stands_in_the_table() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let library = fs::read_to_string(src.join("lib.rs")).unwrap();
        let declared: BTreeSet<_> = library
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
            .collect();

        assert_eq!(declared, allowed().into_keys().collect());
    }

    #[test]
    fn the_scan_sees_plain_and_braced_imports() {
        let code = "use crate::{activity::{A, b}, kernel, infra::mysql::sql};\ncrate::draw::run();";

        let modules = imported_modules(code);

        assert_eq!(
            modules.into_iter().collect::<Vec<_>>(),
            ["activity", "draw", "infra", "kernel"]
        );
    }
}
