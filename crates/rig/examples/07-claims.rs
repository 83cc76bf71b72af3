//! Claims: the right to read, and a buffer handed over to whoever writes the result.
//!
//! The rules are S5.2, S5.3 and S5.5 of SEMANTICS.md.

use rig::{Buffer, Claims, Error, Misuse, Result};

fn main() -> Result<()> {
    let host = rig::host();
    let numbers = host.create_buffer(16)?;
    numbers.write_as::<u32, _>(|numbers| numbers.copy_from_slice(&[1, 2, 3, 4]))?;

    // A claim for reading keeps the bytes as they are: the host can neither write nor free them
    // while it is held. Others may read, and claim for reading too.
    let claim = numbers.claim_read()?;
    let second = numbers.claim_read()?;
    let refused = numbers.write(|_| ()).expect_err("it is claimed");
    println!("under a claim: {refused}");
    assert!(matches!(refused, Error::Misuse { what: Misuse::Busy, .. }));
    assert!(numbers.free().is_err());
    assert_eq!(numbers.read_as::<u32, _>(|numbers| numbers[0])?, 1);

    // A claim ends when it is dropped. It never waits and nothing waits for it.
    drop((claim, second));
    numbers.write_as::<u32, _>(|numbers| numbers[0] = 10)?;

    // A function that takes buffers and answers one often needs new memory for the answer. With a
    // donation it writes over an argument that the caller needs no more.
    let doubled = double(&numbers)?;
    assert_eq!(doubled.read_as::<u32, _>(|numbers| numbers.to_vec())?, [20, 4, 6, 8]);

    // The donated buffer is dead, and says why. Its memory lives on in the answer.
    let dead = numbers.read(|_| ()).expect_err("it was taken over");
    println!("the donated buffer: {dead}");
    assert!(matches!(dead, Error::Misuse { what: Misuse::Dead { .. }, .. }));

    // A donation is taken only if nobody else could notice. While somebody has a claim, it stays
    // a read, and the function makes new memory.
    let claim = doubled.claim_read()?;
    let again = double(&doubled)?;
    drop(claim);
    assert_eq!(doubled.read_as::<u32, _>(|numbers| numbers[0])?, 20, "the argument is as it was");
    assert_eq!(again.read_as::<u32, _>(|numbers| numbers[0])?, 40);

    // A view covers only part, so it is never taken over: the rest is somebody's.
    let half = again.view(0, 8)?;
    let of_half = double(&half)?;
    assert!(half.dead().is_none() && of_half.len() == 8);

    // Memory that was exported, lent or wrapped is outside the claims: who knows who reaches it.
    let wrapped = rig::wrap(vec![5_u32; 4]);
    let copied = double(&wrapped)?;
    assert!(wrapped.dead().is_none());
    assert_eq!(copied.read_as::<u32, _>(|numbers| numbers[3])?, 10);

    // Donations that overlap are a mistake, found before anything happens.
    let twice = Claims::with(&[], &[&[&again], &[&half]], |_| ()).expect_err("they overlap");
    println!("donating it twice: {twice}");
    assert!(matches!(twice, Error::Misuse { what: Misuse::DonationOverlaps, .. }));
    Ok(())
}

/// Doubles numbers: in place if the argument can be taken over, else in new memory.
fn double(argument: &Buffer) -> Result<Buffer> {
    Claims::with(&[], &[&[argument]], |claims| {
        let answer = if claims.is_exclusive(argument) {
            claims.consume(argument, "doubled in place")?
        } else {
            let fresh = argument.device().create_buffer(argument.len())?;
            rig::copy(argument, &fresh)?;
            fresh
        };
        let taken = argument.dead().is_some();
        println!("doubling in {} memory", if taken { "the argument's" } else { "new" });
        // The new buffer passes under the claim that this call holds.
        answer.write_as::<u32, _>(|numbers| numbers.iter_mut().for_each(|number| *number *= 2))?;
        Ok(answer)
    })?
}
