// What comes behind `edge.wgsl`: moves and fills of the words that lie inside, which neither read
// the destination nor ask.

// The word of an invocation, of those that have none but the job's bytes.
fn whole_word_of(index: u32) -> u32 {
    return (job.target_at + 3u) / 4u + index;
}

@compute @workgroup_size(256)
fn fill_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let word = whole_word_of(id.x);
    if word < (job.target_at + job.len) / 4u {
        words[word] = job.value;
    }
}

@compute @workgroup_size(256)
fn move_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let word = whole_word_of(id.x);
    if word < (job.target_at + job.len) / 4u {
        let at = job.source_at + word * 4u - job.target_at;
        // Where the source ends before the second, nothing of that is taken.
        words[word] = joined(source[at / 4u], source[at / 4u + 1u], at);
    }
}
