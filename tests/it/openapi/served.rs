//! `GET /openapi.json` and `GET /docs`.

use crate::harness::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_byte_for_byte_and_the_page_loads_nothing_from_elsewhere() {
    let world = World::new().await;
    let process = world.serve().await;
    let url = process.url().await;
    let get = async |path: &str| {
        let answer = reqwest::get(format!("{url}{path}"))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        answer
    };

    let document = get("/openapi.json").await.bytes().await.expect("a body");
    let expected = luckybag::app::openapi_json().expect("a document");
    assert!(document == expected.as_bytes());

    let page = get("/docs").await;
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .expect("text");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; "),
        "{policy}"
    );
    let html = page.text().await.expect("text");
    let links: Vec<&str> = ["href=\"", "src=\""]
        .iter()
        .flat_map(|mark| html.split(mark).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(links.len(), 5);
    for link in links {
        assert!(link.starts_with("docs/"), "{link}");
        let file = get(&format!("/{link}")).await;
        assert_eq!(file.headers()["x-content-type-options"], "nosniff");
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_can_be_turned_off() {
    let world = World::new().await;
    let process = world.serve_with(&[("SERVER__DOCS", "false")]).await;
    let api = world.api(&process).await;

    for path in ["/openapi.json", "/docs", "/docs/index.css"] {
        let answer = reqwest::get(format!("{}{path}", api.url))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 404, "{path}");
    }
    process.stop().await;
    world.end().await;
}
