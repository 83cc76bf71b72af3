//! Plain data as text, with JavaScript's names: fields in camelCase, `u64::MAX` as `Infinity`.
//!
//! It serializes what the library's reports hold: structs, lists, integers, texts and flags.
//! Infinity is written as `1e999`, which JSON reads as just that.

use rig::embed;
use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple,
    Serializer,
};
use std::fmt::{Display, Write};

/// Returns plain data as text.
pub(crate) fn of(data: &impl Serialize) -> String {
    let mut out = String::new();
    // What it cannot write is no report.
    data.serialize(Json { out: &mut out }).expect("reports are plain data");
    out
}

/// Appends a text in quotes.
pub(crate) fn quote(out: &mut String, text: &str) {
    let _ = write!(out, "{}", embed::quoted(text));
}

/// Appends an integer, or infinity.
pub(crate) fn number(out: &mut String, value: u64) {
    if value == u64::MAX {
        out.push_str("1e999");
    } else {
        let _ = write!(out, "{value}");
    }
}

/// Appends what comes next in a list.
pub(crate) fn next(list: &mut String, text: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(text);
}

struct Json<'a> {
    out: &'a mut String,
}

/// What cannot be written.
#[derive(Debug)]
struct Wrong;

impl Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no plain data")
    }
}

impl std::error::Error for Wrong {}

impl serde::ser::Error for Wrong {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

/// A list, a map or a struct that is being written.
struct Inside<'a> {
    out: &'a mut String,
    any: bool,
    end: char,
}

impl Inside<'_> {
    fn next(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.out.push(',');
        }
    }

    fn name(&mut self, name: &str) {
        self.next();
        quote(self.out, &camel(name));
        self.out.push(':');
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        value.serialize(Json { out: self.out })
    }

    fn close(self) -> Result<(), Wrong> {
        self.out.push(self.end);
        Ok(())
    }
}

impl<'a> Json<'a> {
    fn open(self, start: char, end: char) -> Inside<'a> {
        self.out.push(start);
        Inside { out: self.out, any: false, end }
    }

    fn text(self, text: &str) -> Result<(), Wrong> {
        self.out.push_str(text);
        Ok(())
    }
}

/// Writes the methods that plain data needs none of.
macro_rules! refuse {
    ($($name:ident($kind:ty)),*) => {
        $(fn $name(self, _: $kind) -> Result<(), Wrong> {
            Err(Wrong::custom(""))
        })*
    };
}

impl<'a> Serializer for Json<'a> {
    type Ok = ();
    type Error = Wrong;
    type SerializeSeq = Inside<'a>;
    type SerializeTuple = Inside<'a>;
    type SerializeTupleStruct = Impossible<(), Wrong>;
    type SerializeTupleVariant = Impossible<(), Wrong>;
    type SerializeMap = Inside<'a>;
    type SerializeStruct = Inside<'a>;
    type SerializeStructVariant = Impossible<(), Wrong>;

    refuse!(serialize_f32(f32), serialize_f64(f64), serialize_bytes(&[u8]));

    fn serialize_bool(self, value: bool) -> Result<(), Wrong> {
        self.text(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Wrong> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Wrong> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Wrong> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Wrong> {
        write!(self.out, "{value}").map_err(|_| Wrong)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Wrong> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Wrong> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Wrong> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Wrong> {
        number(self.out, value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Wrong> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Wrong> {
        quote(self.out, value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Wrong> {
        self.text("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Wrong> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Wrong> {
        self.text("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Wrong> {
        self.text("null")
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Wrong> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Wrong> {
        Err(Wrong)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'a>, Wrong> {
        Ok(self.open('[', ']'))
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside<'a>, Wrong> {
        Ok(self.open('[', ']'))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Wrong>, Wrong> {
        Err(Wrong)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Wrong>, Wrong> {
        Err(Wrong)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'a>, Wrong> {
        Ok(self.open('{', '}'))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'a>, Wrong> {
        Ok(self.open('{', '}'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Wrong>, Wrong> {
        Err(Wrong)
    }
}

impl SerializeSeq for Inside<'_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.next();
        self.value(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.close()
    }
}

impl SerializeTuple for Inside<'_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.next();
        self.value(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.close()
    }
}

impl SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Wrong> {
        self.next();
        self.value(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.out.push(':');
        self.value(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.close()
    }
}

impl SerializeStruct for Inside<'_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        self.name(key);
        self.value(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.close()
    }
}

/// Returns a plain name of Rust's as JavaScript has it: `live_bytes` as `liveBytes`.
pub(crate) fn camel(name: &str) -> String {
    let (mut camel, mut starts) = (String::new(), false);
    for byte in name.bytes() {
        if byte != b'_' {
            camel.push(char::from(if starts { byte.to_ascii_uppercase() } else { byte }));
        }
        starts = byte == b'_';
    }
    camel
}
