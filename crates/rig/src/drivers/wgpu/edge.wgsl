// Moves and fills of any bytes. WebGPU's own copies move whole words at whole words; here each
// invocation makes one word of the destination, and keeps the bytes of it that lie outside.

struct Job {
    source_at: u32,
    target_at: u32,
    len: u32,
    value: u32,
    // The words that are left out behind the first one.
    skip: u32,
}

@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<uniform> job: Job;
@group(0) @binding(2) var<storage, read> source: array<u32>;

// The bits of a word that belong to the job.
fn mask_of(word: u32) -> u32 {
    let start = word * 4u;
    let low = max(job.target_at, start) - start;
    let high = min(job.target_at + job.len, start + 4u) - start;
    let below_high = select((1u << (8u * (high & 3u))) - 1u, 0xffffffffu, high >= 4u);
    return below_high & ~((1u << (8u * low)) - 1u);
}

fn put(word: u32, value: u32) {
    let mask = mask_of(word);
    words[word] = (words[word] & ~mask) | (value & mask);
}

// The word of an invocation, of all that have some of the job's bytes.
fn word_of(index: u32) -> u32 {
    return job.target_at / 4u + index + select(0u, job.skip, index > 0u);
}

// Puts a word together of two that follow each other, from that byte of the first on.
fn joined(low: u32, high: u32, at: u32) -> u32 {
    let shift = 8u * (at & 3u);
    // In two steps, since all of the upper word goes where nothing is shifted.
    return (low >> shift) | ((high << 1u) << (31u - shift));
}

@compute @workgroup_size(256)
fn fill_bytes(@builtin(global_invocation_id) id: vec3<u32>) {
    let word = word_of(id.x);
    if word * 4u < job.target_at + job.len {
        put(word, job.value);
    }
}

@compute @workgroup_size(256)
fn move_bytes(@builtin(global_invocation_id) id: vec3<u32>) {
    let word = word_of(id.x);
    if word * 4u >= job.target_at + job.len {
        return;
    }
    // Where the source has the byte that belongs to the word's first one; 4 more, since the first
    // word's may lie before the source's start.
    let at = job.source_at + word * 4u + 4u - job.target_at;
    let first = at / 4u;
    let low = select(0u, source[max(first, 1u) - 1u], first > 0u);
    let high = source[min(first, arrayLength(&source) - 1u)];
    put(word, joined(low, high, at));
}
