//! The three servers, each behind a proxy.

use super::World;
use crate::proxy::Proxy;

/// One proxy before each server.
pub(crate) struct Proxies {
    pub(crate) mysql: Proxy,
    pub(crate) redis: Proxy,
    pub(crate) rabbitmq: Proxy,
    changes: Vec<(&'static str, String)>,
}

impl Proxies {
    pub(crate) async fn of(world: &World) -> Self {
        let mysql = Proxy::start(authority(&world.mysql_url)).await;
        let redis = Proxy::start(authority(&world.redis_url)).await;
        let rabbitmq = Proxy::start(authority(&world.rabbitmq_url)).await;
        let changes = vec![
            ("MYSQL__URL", through(&world.mysql_url, mysql.addr())),
            ("REDIS__URL", through(&world.redis_url, redis.addr())),
            (
                "RABBITMQ__URL",
                through(&world.rabbitmq_url, rabbitmq.addr()),
            ),
        ];
        Self {
            mysql,
            redis,
            rabbitmq,
            changes,
        }
    }

    /// The settings that lead a process of ours through the proxies.
    pub(crate) fn changes(&self) -> Vec<(&str, &str)> {
        self.changes
            .iter()
            .map(|(key, url)| (*key, url.as_str()))
            .collect()
    }

    /// The proxy before the server that `/readyz` calls `name`.
    pub(crate) fn named(&self, name: &str) -> &Proxy {
        let found = self.by_name().into_iter().find(|(known, _)| *known == name);
        found
            .unwrap_or_else(|| panic!("no server is called {name}"))
            .1
    }

    /// The proxies with the names that `/readyz` uses.
    pub(crate) fn by_name(&self) -> [(&'static str, &Proxy); 3] {
        [
            ("mysql", &self.mysql),
            ("redis", &self.redis),
            ("rabbitmq", &self.rabbitmq),
        ]
    }
}

/// `host:port` of a URL.
pub(crate) fn authority(url: &str) -> &str {
    let (_, rest) = url.split_once("://").expect("a URL");
    let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    rest.split(['/', '?']).next().expect("host and port")
}

/// The URL with another address.
pub(crate) fn through(url: &str, address: std::net::SocketAddr) -> String {
    url.replace(authority(url), &address.to_string())
}
