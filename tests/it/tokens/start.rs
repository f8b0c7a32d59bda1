//! What a process says to keys that it cannot have.

use crate::harness::{Finished, IssuerKey, TempFile, jwks, luckybag};

fn run(line: &str, variables: &[(&str, &str)]) -> Finished {
    let args: Vec<&str> = line.split_whitespace().collect();
    let variables = variables
        .iter()
        .map(|(key, value)| (format!("LUCKYBAG__AUTH__{key}"), *value));
    luckybag(&args, variables)
}

#[test]
fn serve_refuses_to_start_without_any_key_and_with_a_file_that_has_none() {
    let garbage = TempFile::new("no json");
    let empty = TempFile::new(r#"{"keys":[]}"#);
    let weak = TempFile::new(r#"{"keys":[{"kty":"RSA","kid":"w","n":"____","e":"AQAB"}]}"#);
    for (variables, named) in [
        (vec![], "LUCKYBAG__AUTH__JWKS_FILE"),
        (vec![("JWKS_FILE", "/nowhere/jwks.json")], "auth.jwks_file"),
        (vec![("JWKS_FILE", "/")], "not a regular file"),
        (vec![("JWKS_FILE", garbage.path())], "not a JWKS"),
        (vec![("JWKS_FILE", empty.path())], "no usable key"),
        (vec![("JWKS_FILE", weak.path())], "`w`: RSA of 24 bits"),
    ] {
        let serve = run("serve", &variables);

        assert_eq!(serve.code, Some(2), "{serve:?}");
        assert!(serve.stderr.contains(named), "{named}: {serve:?}");
    }
}

#[test]
fn a_url_that_cannot_be_trusted_is_refused_by_the_name_of_its_key() {
    for url in [
        "jwks.json",
        "/jwks.json",
        "ftp://id.example/jwks.json",
        "https://",
        "https://user:hunter2@id.example/jwks.json",
        "http://id.example/jwks.json",
        "http://127.0.0.1.example/jwks.json",
        "http://10.0.0.1/jwks.json",
    ] {
        let checked = run("check-config", &[("JWKS_URL", url)]);

        assert_eq!(checked.code, Some(2), "{url}: {checked:?}");
        assert!(checked.stderr.contains("auth.jwks_url"), "{checked:?}");
        assert!(!checked.stderr.contains("hunter2"), "{checked:?}");
    }
    for variables in [
        vec![("JWKS_URL", "https://id.example/jwks.json?token=hunter2")],
        vec![("JWKS_URL", "http://localhost:8000/jwks.json")],
        vec![("JWKS_URL", "http://127.0.0.9/jwks.json")],
        vec![("JWKS_URL", "http://[::1]:8000/jwks.json")],
        vec![
            ("JWKS_URL", "http://id.example/jwks.json"),
            ("JWKS_ALLOW_HTTP", "true"),
        ],
    ] {
        let checked = run("check-config", &variables);

        assert_eq!(checked.code, Some(0), "{checked:?}");
        let url = variables[0].1.replace("hunter2", "********");
        let line = format!("jwks_url = \"{url}\"");
        assert!(
            checked.stdout.lines().any(|shown| shown == line),
            "{checked:?}"
        );
    }
}

#[test]
fn a_token_is_signed_by_a_secret_alone() {
    let file = TempFile::new(&jwks(&[&IssuerKey::ed_dsa("public")]));
    let url = ("JWKS_URL", "https://id.example/jwks.json");

    let refused = run("token --user 7", &[("JWKS_FILE", file.path()), url]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(refused.stdout, "", "{refused:?}");
    assert!(refused.stderr.contains("SIGNING_SECRET"), "{refused:?}");

    let secret = ("SIGNING_SECRET", "0123456789012345678901234567890123456789");
    let signed = run("token --user 7", &[("JWKS_FILE", file.path()), url, secret]);
    assert_eq!(signed.code, Some(0), "{signed:?}");
}
