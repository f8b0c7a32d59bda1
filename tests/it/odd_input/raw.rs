//! Requests byte by byte, as no client library would send them.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::authority;

/// Sends a request as it is, on a connection of its own, and answers the status and the whole text.
pub(super) async fn send(url: &str, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(authority(url)).await.expect("connected");
    stream.write_all(request).await.expect("sent");
    // There is nothing to keep the connection for, whatever becomes of the request.
    stream.shutdown().await.expect("the end of the request");
    let mut answer = Vec::new();
    // Who is refused in the middle may find the connection reset; what came before it counts.
    while let Ok(count) = stream.read_buf(&mut answer).await {
        if count == 0 {
            break;
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), text)
}

/// A GET that closes the connection; `headers` are whole lines without their ends.
pub(super) fn get(path: &str, token: &str, headers: &[&[u8]]) -> Vec<u8> {
    let mut request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").into_bytes();
    request.extend(format!("Authorization: Bearer {token}\r\n").bytes());
    for header in headers {
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}
