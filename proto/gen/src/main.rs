//! Turns `proto/sluice/v1/*.proto` into the committed Go and Rust code, without protoc: protox
//! compiles, tonic-prost-build writes the Rust half, and protoc-gen-go and protoc-gen-go-grpc
//! (`go tool`) are fed the same descriptors for the Go half.

use prost::Message;
use prost_types::FileDescriptorSet;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What protoc tells a plugin; see google/protobuf/compiler/plugin.proto.
#[derive(Clone, PartialEq, Message)]
struct CodeGeneratorRequest {
    #[prost(string, repeated, tag = "1")]
    file_to_generate: Vec<String>,
    #[prost(string, optional, tag = "2")]
    parameter: Option<String>,
    #[prost(message, repeated, tag = "15")]
    proto_file: Vec<prost_types::FileDescriptorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct CodeGeneratorResponse {
    #[prost(string, optional, tag = "1")]
    error: Option<String>,
    #[prost(message, repeated, tag = "15")]
    file: Vec<GeneratedFile>,
}

#[derive(Clone, PartialEq, Message)]
struct GeneratedFile {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "15")]
    content: Option<String>,
}

const FILES: [&str; 2] = ["sluice/v1/admin.proto", "sluice/v1/dataplane.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("proto");
    let both = protox::compile(FILES, [root])?;
    let dataplane = protox::compile([FILES[1]], [root])?;
    rust(dataplane, &root.join("rust/src"))?;
    for plugin in ["protoc-gen-go", "protoc-gen-go-grpc"] {
        go(plugin, &both, root)?;
    }
    Ok(())
}

fn rust(descriptors: FileDescriptorSet, out: &Path) -> Result<(), Box<dyn Error>> {
    tonic_prost_build::configure()
        .build_client(false)
        .emit_rerun_if_changed(false)
        .out_dir(out)
        .compile_fds(descriptors)?;
    Ok(())
}

fn go(plugin: &str, descriptors: &FileDescriptorSet, root: &Path) -> Result<(), Box<dyn Error>> {
    let request = CodeGeneratorRequest {
        file_to_generate: FILES.map(String::from).to_vec(),
        parameter: Some("paths=source_relative".into()),
        proto_file: descriptors.file.clone(),
    };
    let mut child = Command::new("go")
        .args(["tool", plugin])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().expect("piped above").write_all(&request.encode_to_vec())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("{plugin}: {}", output.status).into());
    }
    let response = CodeGeneratorResponse::decode(output.stdout.as_slice())?;
    if let Some(error) = response.error {
        return Err(format!("{plugin}: {error}").into());
    }
    for file in response.file {
        std::fs::write(root.join(file.name()), file.content())?;
    }
    Ok(())
}
