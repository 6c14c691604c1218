package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
)

const rustHeader = `// Code generated from layout.abi by shm-abi/gen. DO NOT EDIT.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

`

func emitRust(l *layout) []byte {
	var b bytes.Buffer
	b.WriteString(rustHeader)
	b.WriteString("/// Names this layout; attach refuses a page with another one.\n")
	fmt.Fprintf(&b, "pub const LAYOUT_HASH: u64 = %#016x;\n\n", l.hash)
	for _, c := range l.consts {
		doc := c.doc
		if doc == "" {
			doc = "`" + c.name + "` of layout.abi."
		}
		fmt.Fprintf(&b, "/// %s\npub const %s: %s = %d;\n", doc, c.name, c.typ, c.value)
	}
	b.WriteByte('\n')
	for _, e := range l.enums {
		for _, v := range e.values {
			doc := v.doc
			if doc == "" {
				doc = "A value of " + e.name + "."
			}
			fmt.Fprintf(&b, "/// %s\npub const %s_%s: %s = %d;\n", doc, e.name, v.name, e.typ, v.value)
		}
		b.WriteByte('\n')
	}
	for _, s := range l.structs {
		doc := strings.Join(s.doc, "\n/// ")
		fmt.Fprintf(&b, "/// %s\n", doc)
		if s.shared() {
			rustPage(&b, s)
		} else {
			rustLine(&b, s)
		}
		rustAsserts(&b, s)
	}
	rustTests(&b, l)
	return rustfmt(b.Bytes())
}

// rustfmt keeps the generated file as `cargo fmt` would leave it.
func rustfmt(source []byte) []byte {
	cmd := exec.Command("rustfmt", "--edition", "2024", "--config", "max_width=100")
	cmd.Stdin = bytes.NewReader(source)
	out, err := cmd.Output()
	if err != nil {
		panic(fmt.Sprintf("rustfmt of our own template: %v", err))
	}
	return out
}

func rustType(f field) string {
	switch f.kind {
	case "bytes":
		return fmt.Sprintf("[u8; %d]", f.count)
	case "counts":
		return fmt.Sprintf("[u64; %d]", f.count)
	case "word", "count", "tally":
		return "u64"
	}
	return f.kind
}

func rustAtomic(f field) string {
	switch f.kind {
	case "bytes":
		return fmt.Sprintf("[AtomicU8; %d]", f.count)
	case "counts":
		return fmt.Sprintf("[AtomicU64; %d]", f.count)
	case "u32":
		return "AtomicU32"
	}
	return "AtomicU64"
}

func rustFields(b *bytes.Buffer, s structure, each func(field)) {
	end, pad := 0, 0
	for _, f := range s.fields {
		if f.offset > end {
			fmt.Fprintf(b, "_pad%d: [u8; %d],\n", pad, f.offset-end)
			pad++
		}
		each(f)
		end = f.offset + f.size()
	}
	if s.size > end {
		fmt.Fprintf(b, "_pad%d: [u8; %d],\n", pad, s.size-end)
	}
	b.WriteString("}\n\n")
}

func rustAsserts(b *bytes.Buffer, s structure) {
	fmt.Fprintf(b, "const _: () = assert!(size_of::<%s>() == %d);\n", s.name, s.size)
	for _, f := range s.fields {
		fmt.Fprintf(b, "const _: () = assert!(offset_of!(%s, %s) == %d);\n", s.name, f.name, f.offset)
	}
	b.WriteByte('\n')
}

func fieldDoc(f field) string {
	if f.doc != "" {
		return f.doc
	}
	return "The field of that name."
}

// rustLine is a plain value: built or read locally, copied to or from the mapping whole.
func rustLine(b *bytes.Buffer, s structure) {
	fmt.Fprintf(b, "#[repr(C, align(64))]\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub struct %s {\n", s.name)
	rustFields(b, s, func(f field) {
		fmt.Fprintf(b, "/// %s\npub %s: %s,\n", fieldDoc(f), f.name, rustType(f))
	})
	// By hand, since arrays of more than 32 have none to derive from.
	fmt.Fprintf(b, "impl Default for %s {\n/// All zero.\nfn default() -> Self {\n"+
		"Self::from_bytes(&[0; %d])\n}\n}\n\n", s.name, s.size)
	fmt.Fprintf(b, "impl %s {\n", s.name)
	fmt.Fprintf(b, "/// Reads the %d bytes of the line.\npub fn from_bytes(b: &[u8; %d]) -> Self {\nSelf {\n", s.size, s.size)
	for _, f := range s.fields {
		if f.kind == "bytes" {
			fmt.Fprintf(b, "%s: core::array::from_fn(|n| b[%d + n]),\n", f.name, f.offset)
			continue
		}
		fmt.Fprintf(b, "%s: %s::from_le_bytes([%s]),\n", f.name, rustType(f), byteList(f))
	}
	fmt.Fprintf(b, "}\n}\n\n/// The %d bytes of the line.\npub fn to_bytes(&self) -> [u8; %d] {\nlet mut b = [0; %d];\n", s.size, s.size, s.size)
	for _, f := range s.fields {
		at := fmt.Sprintf("b[%d..%d]", f.offset, f.offset+f.size())
		if f.kind == "bytes" {
			fmt.Fprintf(b, "%s.copy_from_slice(&self.%s);\n", at, f.name)
		} else {
			fmt.Fprintf(b, "%s.copy_from_slice(&self.%s.to_le_bytes());\n", at, f.name)
		}
	}
	b.WriteString("b\n}\n}\n\n")
}

func byteList(f field) string {
	var list []string
	for n := range f.size() {
		list = append(list, fmt.Sprintf("b[%d]", f.offset+n))
	}
	return strings.Join(list, ", ")
}

// rustPage is mapped memory: every word an atomic, a store only on the owner's side.
func rustPage(b *bytes.Buffer, s structure) {
	fmt.Fprintf(b, "#[repr(C, align(64))]\npub struct %s {\n", s.name)
	rustFields(b, s, func(f field) { fmt.Fprintf(b, "%s: %s,\n", f.name, rustAtomic(f)) })
	fmt.Fprintf(b, "impl %s {\n", s.name)
	for _, f := range s.fields {
		if f.name == "reserved" {
			continue
		}
		rustWord(b, s, f)
	}
	b.WriteString("}\n\n")
}

func rustWord(b *bytes.Buffer, s structure, f field) {
	doc, store := fieldDoc(f), f.owner == "dp" || f.owner == "once" && s.maker == "dp"
	switch f.kind {
	case "bytes":
		fmt.Fprintf(b, "/// %s\npub fn %s(&self) -> %s {\ncore::array::from_fn(|i| self.%s[i].load(Ordering::Acquire))\n}\n\n",
			doc, f.name, rustType(f), f.name)
		if store {
			fmt.Fprintf(b, "/// Publishes `%s`.\npub fn store_%s(&self, v: %s) {\nfor (to, from) in self.%s.iter().zip(v) {\nto.store(from, Ordering::Release);\n}\n}\n\n",
				f.name, f.name, rustType(f), f.name)
		}
		return
	case "counts":
		fmt.Fprintf(b, "/// %s\npub fn %s(&self, i: usize) -> u64 {\nself.%s[i].load(Ordering::Relaxed)\n}\n\n", doc, f.name, f.name)
		if store {
			fmt.Fprintf(b, "/// Adds to entry `i` of `%s`; one thread only.\npub fn add_%s(&self, i: usize, n: u64) {\nlet v = self.%s[i].load(Ordering::Relaxed);\nself.%s[i].store(v.wrapping_add(n), Ordering::Relaxed);\n}\n\n",
				f.name, f.name, f.name, f.name)
		}
		return
	}
	typ := rustType(f)
	fmt.Fprintf(b, "/// %s\npub fn %s(&self) -> %s {\nself.%s.load(Ordering::Acquire)\n}\n\n", doc, f.name, typ, f.name)
	if !store {
		return
	}
	switch f.kind {
	case "count":
		fmt.Fprintf(b, "/// Adds to `%s`; one thread only.\npub fn add_%s(&self, n: u64) {\nlet v = self.%s.load(Ordering::Relaxed);\nself.%s.store(v.wrapping_add(n), Ordering::Relaxed);\n}\n\n",
			f.name, f.name, f.name, f.name)
	case "tally":
		fmt.Fprintf(b, "/// Adds to `%s` and gives what it was.\npub fn add_%s(&self, n: u64) -> u64 {\nself.%s.fetch_add(n, Ordering::AcqRel)\n}\n\n", f.name, f.name, f.name)
		fmt.Fprintf(b, "/// Takes from `%s` and gives what it was.\npub fn sub_%s(&self, n: u64) -> u64 {\nself.%s.fetch_sub(n, Ordering::AcqRel)\n}\n\n", f.name, f.name, f.name)
	default:
		fmt.Fprintf(b, "/// Publishes `%s`.\npub fn store_%s(&self, v: %s) {\nself.%s.store(v, Ordering::Release);\n}\n\n", f.name, f.name, typ, f.name)
	}
}

// rustTests holds the Rust face against the golden images.
func rustTests(b *bytes.Buffer, l *layout) {
	b.WriteString("#[cfg(test)]\nmod tests {\nuse super::*;\nuse crate::image::{image, pattern};\n\n")
	for _, s := range l.structs {
		fmt.Fprintf(b, "#[test]\nfn %s_is_its_golden_image() {\nlet golden = image(include_str!(\"../../testdata/image/%s.hex\"), %d);\n", snake(s.name), snake(s.name), s.size)
		if s.shared() {
			fmt.Fprintf(b, "let page = crate::image::Page::new(&golden);\n// SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.\nlet v = unsafe { &*page.as_ptr().cast::<%s>() };\n", s.name)
		} else {
			fmt.Fprintf(b, "let golden: [u8; %d] = golden.try_into().unwrap();\nlet v = %s::from_bytes(&golden);\nassert_eq!(v.to_bytes(), golden);\n", s.size, s.name)
		}
		for i, f := range s.fields {
			if f.name == "reserved" {
				continue
			}
			get := "v." + f.name
			if s.shared() {
				get += "()"
			}
			switch f.kind {
			case "bytes":
				fmt.Fprintf(b, "assert_eq!(%s, core::array::from_fn::<u8, %d, _>(|n| pattern(%d, n)));\n", get, f.count, i+1)
			case "counts":
				fmt.Fprintf(b, "assert_eq!(v.%s(1), u64::from_le_bytes(core::array::from_fn(|n| pattern(%d, n + 8))));\n", f.name, i+1)
			default:
				fmt.Fprintf(b, "assert_eq!(%s, %s::from_le_bytes(core::array::from_fn(|n| pattern(%d, n))));\n", get, rustType(f), i+1)
			}
		}
		b.WriteString("}\n\n")
	}
	b.WriteString("}\n")
}
