//! Asks for a chat by one of reqwest's ways to trust, and prints the answer.

const CHAT: &str = r#"{"model":"m-1","messages":[{"role":"user","content":"hi"}]}"#;

macro_rules! ask {
    ($builder:expr, $url:expr) => {
        $builder.build()?.post($url).header("Content-Type", "application/json").body(CHAT).send()?.text()?
    };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (way, url) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let old = reqwest_0_12::blocking::Client::builder();
    println!("{}", match way.as_str() {
        "0.12-native" => ask!(old.tls_built_in_webpki_certs(false), url),
        "0.12-webpki" => ask!(old.tls_built_in_native_certs(false), url),
        _ => ask!(reqwest_0_13::blocking::Client::builder(), url),
    });
    Ok(())
}
