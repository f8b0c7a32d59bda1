//! Keys over https, with a certificate that is made for the test.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::{answer, end, keys_from, logged, with};
use crate::{
    harness::{IssuerKey, World, eventually, finish, jwks},
    proxy::free_address,
};

/// `openssl s_server` with a folder of its own; stopped and removed when dropped.
struct HttpsServer {
    folder: PathBuf,
    addr: SocketAddr,
    child: Child,
}

impl HttpsServer {
    fn start(jwks: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("luckybag-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("jwks.json"), jwks).expect("a file");
        let mut request = Command::new("openssl");
        request.current_dir(&folder).args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -keyout key.pem -out cert.pem -subj /CN=localhost \
             -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:127.0.0.1"
                .split_whitespace(),
        );
        let made = finish(request);
        assert_eq!(made.code, Some(0), "{made:?}");
        let addr = free_address();
        let child = Command::new("openssl")
            .current_dir(&folder)
            .args(["s_server", "-WWW", "-quiet", "-cert", "cert.pem"])
            .args(["-key", "key.pem", "-accept", &addr.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        Self {
            folder,
            addr,
            child,
        }
    }

    fn url(&self) -> String {
        format!("https://{}/jwks.json", self.addr)
    }

    fn certificate(&self) -> String {
        let path = self.folder.join("cert.pem");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_over_https_from_a_server_that_a_root_certificate_vouches_for() {
    let world = World::new().await;
    let key = IssuerKey::es256("over-https");
    let server = HttpsServer::start(&jwks(&[&key]));
    let (url, certificate) = (server.url(), server.certificate());

    let trusted = [("SSL_CERT_FILE", certificate.as_str())];
    let process = world.serve_with(&with(keys_from(&url), &trusted)).await;
    let api = world.api(&process).await;
    assert_eq!(answer(&api, &key.operator()).await, 200);
    process.stop().await;

    // Without it the server is a stranger.
    let process = world.spawn(&keys_from(&url));
    eventually("a refusal of the certificate", async || {
        let lines = logged(&process, "waiting for the keys of tokens");
        let refused = lines.iter().any(|line| line.contains("certificate"));
        if refused { Ok(()) } else { Err(lines) }
    })
    .await;
    let api = world.api(&process).await;
    assert_eq!(answer(&api, &key.operator()).await, 503);
    end(world, process).await;
}
