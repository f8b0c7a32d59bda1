use std::net::SocketAddr;

use actix_web::{http::Method, web};

use super::*;

async fn me(_viewer: Viewer) -> &'static str {
    "me"
}

async fn open() -> &'static str {
    "open"
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(Endpoint::new("/me").route(Method::GET, web::get().to(me)))
        .service(Endpoint::new("/open").route(Method::GET, web::get().to(open)))
        .service(Endpoint::new("/healthz").route(Method::GET, web::get().to(open)));
}

async fn limited(change: impl FnOnce(&mut Settings)) -> TestApp {
    let kit = WebKit {
        rates: Arc::new(rates(change)),
        ..kit()
    };
    app_with(&kit, routes).await
}

/// Lets three calls through, and another one each hundred seconds as good as never.
fn three_of_an_address(settings: &mut Settings) {
    settings.limits.ip_per_second = 1;
    settings.limits.ip_burst = 3.try_into().unwrap();
}

fn three_of_a_user(settings: &mut Settings) {
    settings.limits.user_per_second = 1;
    settings.limits.user_burst = 3.try_into().unwrap();
}

fn get(path: &str, from: &str) -> test::TestRequest {
    let from: SocketAddr = from.parse().unwrap();
    test::TestRequest::get().uri(path).peer_addr(from)
}

async fn statuses(app: &TestApp, request: impl Fn() -> test::TestRequest) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(send(app, request()).await.status.as_u16());
    }
    statuses
}

#[actix_web::test]
async fn who_calls_too_often_from_one_address_is_told_when_to_come_back() {
    let app = limited(three_of_an_address).await;

    // Whether there is a token or not, and a route or not.
    let first = statuses(&app, || get("/me", "198.51.100.7:1")).await;
    assert_eq!(first, [401, 401, 401, 429]);
    for path in ["/me", "/open", "/nowhere"] {
        let answer = send(&app, get(path, "198.51.100.7:2")).await;
        assert_eq!(answer.header("retry-after"), "1", "{path}");
        assert_eq!(answer.problem(429).await["code"], "rate_limited");
    }

    let another = send(&app, get("/open", "198.51.100.8:1")).await;
    assert_eq!(another.status, StatusCode::OK);
    let health = statuses(&app, || get("/healthz", "198.51.100.7:1")).await;
    assert_eq!(health, [200; 4]);
}

#[actix_web::test]
async fn an_ipv6_customer_has_one_limit_for_all_its_addresses() {
    let app = limited(three_of_an_address).await;

    for last in ["1", "2", "ffff:3"] {
        let answer = send(&app, get("/open", &format!("[2001:db8:0:1::{last}]:1"))).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    let fourth = send(&app, get("/open", "[2001:db8:0:1::4]:1")).await;
    let neighbour = send(&app, get("/open", "[2001:db8:0:2::4]:1")).await;

    assert_eq!(fourth.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(neighbour.status, StatusCode::OK);
}

#[actix_web::test]
async fn a_forwarded_address_counts_when_a_trusted_proxy_says_it() {
    let app = limited(|settings| {
        three_of_an_address(settings);
        settings.server.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    })
    .await;
    let through = |peer: &str, value: &str| {
        get("/open", peer).insert_header(("x-forwarded-for", value.to_owned()))
    };

    let behind = statuses(&app, || through("10.0.0.1:1", "198.51.100.7")).await;
    assert_eq!(behind, [200, 200, 200, 429]);
    let other = send(&app, through("10.0.0.1:1", "198.51.100.8")).await;
    assert_eq!(other.status, StatusCode::OK, "they do not share a limit");
    // What the client invents stands left of what the proxy adds.
    for invented in ["1.1.1.1", "10.0.0.9", "garbage"] {
        let value = format!("{invented}, 198.51.100.7");
        let spoofed = send(&app, through("10.0.0.1:1", &value)).await;
        assert_eq!(spoofed.status, StatusCode::TOO_MANY_REQUESTS, "{value}");
    }
    // Nobody else is believed.
    let mut invented = 0..;
    let direct = (0..4).map(|_| format!("203.0.113.{}", invented.next().unwrap()));
    let mut answers = Vec::new();
    for value in direct {
        let answer = send(&app, through("198.51.100.20:1", &value)).await;
        answers.push(answer.status.as_u16());
    }
    assert_eq!(answers, [200, 200, 200, 429]);
}

#[actix_web::test]
async fn a_user_has_a_limit_wherever_it_calls_from_and_other_systems_have_none() {
    let app = limited(three_of_a_user).await;
    let call = |roles: &[Role], port: u16| {
        get("/me", &format!("198.51.100.7:{port}"))
            .insert_header(("authorization", format!("Bearer {}", token_of(roles, &[]))))
    };

    let service = statuses(&app, || call(&[Role::Service], 1)).await;
    assert_eq!(service, [200; 4]);
    let viewer = statuses(&app, || call(&[], 1)).await;
    assert_eq!(viewer, [200, 200, 200, 429]);
    let elsewhere = get("/me", "203.0.113.1:1")
        .insert_header(("authorization", format!("Bearer {}", token_of(&[], &[]))));
    let answer = send(&app, elsewhere).await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.problem(429).await["code"], "rate_limited");
    let nobody = send(&app, get("/open", "198.51.100.7:1")).await;
    assert_eq!(nobody.status, StatusCode::OK);
}

#[actix_web::test]
async fn zero_is_no_limit() {
    let app = limited(|settings| {
        settings.limits.ip_per_second = 0;
        settings.limits.ip_burst = 1.try_into().unwrap();
        settings.limits.user_per_second = 0;
        settings.limits.user_burst = 1.try_into().unwrap();
    })
    .await;

    let token = format!("Bearer {}", token_of(&[], &[]));
    let call = || get("/me", "198.51.100.7:1").insert_header(("authorization", token.clone()));
    assert_eq!(statuses(&app, call).await, [200; 4]);
}
