import type { Step } from "../scripted.ts";

/** What `mc` does to a bucket, command by command. `$URL`, `$KEY` and `$SECRET` are the gateway's. */
export const MC_STEPS: readonly Step[] = [
  {
    name: "alias set finds the gateway",
    script: `mc alias set mine "$URL" "$KEY" "$SECRET" --api S3v4 --path on
      mc ls mine | has "$BUCKET/"`,
  },
  {
    name: "alias set with a wrong secret says so",
    script: `fails mc alias set mine "$URL" "$KEY" wrong-secret`,
  },
  {
    name: "alias list, export, remove and import",
    script: `mc alias set mine "$URL" "$KEY" "$SECRET" --api S3v4
      mc alias list mine | has "$URL"
      mc alias export mine > mine.json
      mc alias remove mine
      fails mc stat "mine/$BUCKET"
      mc alias import mine mine.json
      mc ls mine | has "$BUCKET/"`,
  },
  { name: "mb", script: `mc mb "$B-made"; mc ls here | has "$BUCKET-made/"` },
  { name: "mb of a bucket that is there", script: `fails mc mb "$B"` },
  { name: "mb --ignore-existing", script: `mc mb --ignore-existing "$B"` },
  {
    name: "mb --region",
    script: `mc mb --region eu-central-1 "$B-made"; mc stat "$B-made" | has "$BUCKET-made"`,
  },
  {
    name: "mb --with-versioning",
    script: `mc mb --with-versioning "$B-made"; mc version info "$B-made" | has "versioning is enabled"`,
  },
  { name: "mb --with-lock", script: `mc mb --with-lock "$B-locked"` },
  { name: "ls of all buckets", script: `mc ls here | has "$BUCKET/"` },
  {
    name: "ls of a bucket",
    script: `mc cp "$F/a.txt" "$B/a.txt"; mc cp "$F/b.txt" "$B/folder/b.txt"
      is "$(mc ls --json "$B" | jq -r .key | sort | paste -sd,)" "a.txt,folder/"`,
  },
  {
    name: "ls --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/"
      is "$(mc ls --recursive --json "$B" | jq -r .key | sort | paste -sd,)" "one.txt,sub/deep/three.txt,sub/two.txt"`,
  },
  {
    name: "ls of a prefix that is no folder",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc ls --json "$B/on" | jq -r .key)" "one.txt"`,
  },
  {
    name: "ls of nothing",
    script: `is "$(mc ls "$B")" ""; is "$(mc ls --summarize "$B" | grep Objects)" "Total Objects: 0"`,
  },
  {
    name: "ls --summarize",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc ls --recursive --summarize "$B" | has "Total Objects: 3"`,
  },
  {
    name: "ls --storage-class STANDARD",
    script: `mc cp "$F/a.txt" "$B/a.txt"; mc ls --storage-class STANDARD "$B" | has "a.txt"
      mc ls --storage-class GLACIER "$B" | hasnt "a.txt"`,
  },
  {
    name: "ls --versions",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; mc rm "$B/x"
      is "$(mc ls --versions --json "$B/x" | jq -r 'if .isDeleteMarker then "deleted" else .size end' | paste -sd,)" \\
        "deleted,$(stat -c %s "$F/b.txt"),$(stat -c %s "$F/a.txt")"`,
  },
  {
    name: "ls --rewind",
    script: `mc cp "$F/a.txt" "$B/before"; at=$(later); mc cp "$F/b.txt" "$B/after"
      is "$(mc ls --rewind "$at" --json "$B" | jq -r .key)" "before"`,
  },
  {
    name: "ls --incomplete",
    script: `begin_upload big.bin; mc ls --incomplete --recursive "$B" | has "big.bin"`,
  },
  {
    name: "tree",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc tree "$B" | has "deep"; mc tree "$B" | hasnt "one.txt"`,
  },
  {
    name: "tree --files",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc tree --files "$B" | has "three.txt"`,
  },
  {
    name: "tree --depth",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc tree --files --depth 1 "$B" | has "sub"; mc tree --files --depth 1 "$B" | hasnt "three.txt"`,
  },
  {
    name: "du",
    script: `mc cp --recursive "$F/tree/" "$B/"
      is "$(mc du --json "$B" | jq -r '"\\(.size) \\(.objects)"')" "$(cat "$F"/tree/one.txt "$F"/tree/sub/two.txt "$F"/tree/sub/deep/three.txt | wc -c) 3"`,
  },
  {
    name: "du --depth",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc du --depth 2 "$B" | has "sub"; mc du --depth 2 "$B" | hasnt "deep"`,
  },
  {
    name: "du --versions",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"
      is "$(mc du --versions --json "$B" | jq -r .size)" "$(cat "$F/a.txt" "$F/b.txt" | wc -c)"`,
  },
  {
    name: "cp up and down",
    script: `mc cp "$F/a.txt" "$B/folder/a.txt"; mc cp "$B/folder/a.txt" got; cmp "$F/a.txt" got`,
  },
  {
    name: "cp of an empty file",
    script: `mc cp "$F/empty" "$B/empty"; mc cp "$B/empty" got; cmp "$F/empty" got`,
  },
  {
    name: "cp of several files",
    script: `mc cp "$F/a.txt" "$F/b.txt" "$B/to/"; mc cat "$B/to/a.txt" | cmp - "$F/a.txt"; mc cat "$B/to/b.txt" | cmp - "$F/b.txt"`,
  },
  {
    name: "cp of odd names",
    script: `for name in "a b" "a+b" "50%" "ü 😀" "(1) [2] {3}" "q?&=#"; do
        cp "$F/a.txt" "$name"; mc cp "$name" "$B/odd/$name"; mc cp "$B/odd/$name" "$B/copied/$name"
        mc cat "$B/copied/$name" | cmp - "$F/a.txt"
      done
      is "$(mc ls --recursive --json "$B/copied/" | jq -r .key | wc -l)" 6`,
  },
  {
    name: "cp of what goes in parts",
    script: `mc cp "$F/large.bin" "$B/large.bin"; mc cp "$B/large.bin" got; cmp "$F/large.bin" got`,
  },
  {
    name: "cp --disable-multipart",
    script: `mc cp --disable-multipart "$F/large.bin" "$B/large.bin"; mc cat "$B/large.bin" | cmp - "$F/large.bin"`,
  },
  {
    name: "cp --recursive up",
    script: `mc cp --recursive "$F/tree" "$B/"; mc cat "$B/tree/sub/deep/three.txt" | cmp - "$F/tree/sub/deep/three.txt"`,
  },
  {
    name: "cp --recursive down",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc cp --recursive "$B/" got/; diff -r "$F/tree" got`,
  },
  {
    name: "cp --recursive from bucket to bucket",
    script: `mc mb "$B-to"; mc cp --recursive "$F/tree/" "$B/"; mc cp --recursive "$B/" "$B-to/"; mc cp --recursive "$B-to/" got/; diff -r "$F/tree" got`,
  },
  {
    name: "cp of an object",
    script: `mc cp "$F/a.txt" "$B/a"; mc cp "$B/a" "$B/b"; mc cat "$B/b" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --attr",
    script: `mc cp --attr "Cache-Control=max-age=90;origin=tests" "$F/a.txt" "$B/a"
      mc stat --json "$B/a" | jq -e '.metadata["Cache-Control"] == "max-age=90" and .metadata["X-Amz-Meta-Origin"] == "tests"'`,
  },
  {
    name: "cp --attr of an object",
    script: `mc cp --attr "origin=tests" "$F/a.txt" "$B/a"; mc cp --attr "more=yes" "$B/a" "$B/b"
      mc stat --json "$B/b" | jq -e '.metadata["X-Amz-Meta-Origin"] == "tests" and .metadata["X-Amz-Meta-More"] == "yes"'; mc cat "$B/b" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --preserve",
    script: `cp "$F/a.txt" kept; touch -d 2020-01-02T03:04:05Z kept; mc cp --preserve kept "$B/kept"; mc cp --preserve "$B/kept" got
      is "$(date -u -r got +%FT%TZ)" "2020-01-02T03:04:05Z"`,
  },
  {
    name: "cp --tags",
    script: `mc cp --tags "a=1&b=2" "$F/a.txt" "$B/a"; mc tag list --json "$B/a" | jq -e '.tagset == {"a":"1","b":"2"}'`,
  },
  {
    name: "cp --storage-class STANDARD",
    script: `mc cp --storage-class STANDARD "$F/a.txt" "$B/a"; mc cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --storage-class REDUCED_REDUNDANCY",
    script: `mc cp --storage-class REDUCED_REDUNDANCY "$F/a.txt" "$B/a"`,
  },
  ...["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"].map((algorithm) => ({
    name: `cp --checksum ${algorithm}`,
    script: `mc cp --checksum ${algorithm} "$F/large.bin" "$B/large.bin"; mc cat "$B/large.bin" | cmp - "$F/large.bin"`,
  })),
  {
    name: "cp --version-id",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"
      mc cp --version-id "$id" "$B/x" got; cmp "$F/a.txt" got`,
  },
  {
    name: "cp --version-id of an object puts it back",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"
      mc cp --version-id "$id" "$B/x" "$B/x"; mc cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --rewind",
    script: `mc cp "$F/a.txt" "$B/x"; at=$(later); mc cp "$F/b.txt" "$B/x"; mc cp --rewind "$at" "$B/x" got; cmp "$F/a.txt" got`,
  },
  {
    name: "cp --older-than and --newer-than",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc cp --recursive --older-than 1d "$B/" none/; mc cp --recursive --newer-than 1d "$B/" all/
      [ ! -e none ] || is "$(find none -type f)" ""; diff -r "$F/tree" all`,
  },
  {
    name: "cp --enc-s3",
    script: `mc cp --enc-s3 "$B" "$F/a.txt" "$B/a"; mc cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --enc-c",
    script: `mc cp --enc-c "$B=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE" "$F/a.txt" "$B/a"`,
  },
  {
    name: "cp --enc-kms",
    script: `mc cp --enc-kms "$B=my-key" "$F/a.txt" "$B/a"`,
  },
  {
    name: "cp --retention-mode",
    script: `mc cp --retention-mode governance --retention-duration 1d "$F/a.txt" "$B/a"`,
  },
  { name: "cp --legal-hold", script: `mc cp --legal-hold on "$F/a.txt" "$B/a"` },
  { name: "cp of what is not there", script: `fails mc cp "$B/absent" got; [ ! -e got ]` },
  {
    name: "mv of a file",
    script: `cp "$F/a.txt" own; mc mv own "$B/a"; [ ! -e own ]; mc cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "mv of an object",
    script: `mc cp "$F/a.txt" "$B/a"; mc mv "$B/a" "$B/b"; fails mc stat "$B/a"; mc cat "$B/b" | cmp - "$F/a.txt"`,
  },
  {
    name: "mv --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/from/"; mc mv --recursive "$B/from/" "$B/to/"
      is "$(mc ls --recursive "$B/from/")" ""; mc cp --recursive "$B/to/" got/; diff -r "$F/tree" got`,
  },
  {
    name: "cat",
    script: `mc cp "$F/a.txt" "$B/a"; mc cp "$F/b.txt" "$B/b"; mc cat "$B/a" "$B/b" > got; cat "$F/a.txt" "$F/b.txt" | cmp - got`,
  },
  {
    name: "cat --offset and --tail",
    script: `mc cp "$F/a.txt" "$B/a"; is "$(mc cat --offset 4 "$B/a")" "$(tail -c +5 "$F/a.txt")"; is "$(mc cat --tail 5 "$B/a")" "$(tail -c 5 "$F/a.txt")"`,
  },
  {
    name: "cat --version-id",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"; mc cat --version-id "$id" "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "cat --rewind",
    script: `mc cp "$F/a.txt" "$B/x"; at=$(later); mc cp "$F/b.txt" "$B/x"; mc cat --rewind "$at" "$B/x" | cmp - "$F/a.txt"`,
  },
  { name: "cat of what is not there", script: `fails mc cat "$B/absent"` },
  {
    name: "head",
    script: `mc cp "$F/lines.txt" "$B/x"; is "$(mc head -n 3 "$B/x")" "$(head -n 3 "$F/lines.txt")"`,
  },
  { name: "pipe", script: `cat "$F/a.txt" | mc pipe "$B/a"; mc cat "$B/a" | cmp - "$F/a.txt"` },
  {
    name: "pipe in parts",
    script: `cat "$F/large.bin" | mc pipe --part-size 5MiB "$B/a"; mc cat "$B/a" | cmp - "$F/large.bin"`,
  },
  {
    name: "pipe --attr and --tags",
    script: `echo x | mc pipe --attr "origin=tests" --tags "a=1" "$B/a"; mc stat --json "$B/a" | jq -e '.metadata["X-Amz-Meta-Origin"] == "tests"'; mc tag list --json "$B/a" | jq -e '.tagset.a == "1"'`,
  },
  { name: "put and get", script: `mc put "$F/a.txt" "$B/a"; mc get "$B/a" got; cmp "$F/a.txt" got` },
  {
    name: "put --parallel and --part-size",
    script: `mc put --parallel 3 --part-size 5MiB "$F/large.bin" "$B/large.bin"; mc get "$B/large.bin" got; cmp "$F/large.bin" got`,
  },
  {
    name: "put --checksum",
    script: `mc put --checksum CRC32C "$F/a.txt" "$B/a"; mc get "$B/a" got; cmp "$F/a.txt" got`,
  },
  {
    name: "get --version-id",
    script: `mc put "$F/a.txt" "$B/x"; id=$(version x); mc put "$F/b.txt" "$B/x"; mc get --version-id "$id" "$B/x" got; cmp "$F/a.txt" got`,
  },
  {
    name: "stat of an object",
    script: `mc cp "$F/a.txt" "$B/a"; mc stat --json "$B/a" | jq -e ".size == $(stat -c %s "$F/a.txt") and .metadata[\\"Content-Type\\"] == \\"text/plain\\" and .versionID != null"`,
  },
  {
    name: "stat of a bucket",
    script: `mc stat "$B" | has "Versioning: Enabled"; mc stat --verbose "$B" | has "$BUCKET"`,
  },
  {
    name: "stat --versions",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; is "$(mc stat --versions --json "$B/x" | jq -r .versionID | sort -u | wc -l)" 2`,
  },
  {
    name: "stat --version-id",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"; mc stat --version-id "$id" --json "$B/x" | jq -e ".size == $(stat -c %s "$F/a.txt")"`,
  },
  {
    name: "stat --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc stat --recursive --json "$B/" | jq -r .name | wc -l)" 3`,
  },
  { name: "stat of what is not there", script: `fails mc stat "$B/absent"` },
  {
    name: "diff of what is the same",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc diff "$F/tree/" "$B/")" ""`,
  },
  {
    name: "diff of what differs",
    script: `mc cp --recursive "$F/tree/" "$B/one/"; mc cp --recursive "$F/tree/" "$B/two/"; mc rm "$B/two/one.txt"; mc cp "$F/a.txt" "$B/two/new.txt"; mc cp "$F/large.bin" "$B/two/sub/two.txt"
      is "$(mc diff --json "$B/one/" "$B/two/" | jq -r .diff | sort | paste -sd,)" "2,5,6"`,
  },
  {
    name: "find --name",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc find "$B" --name "t*.txt" | sort | paste -sd,)" "$B/sub/deep/three.txt,$B/sub/two.txt"`,
  },
  {
    name: "find --path and --regex",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc find "$B" --path "*/deep/*")" "$B/sub/deep/three.txt"; is "$(mc find "$B" --regex 'o(ne|nes)\\.txt$')" "$B/one.txt"`,
  },
  {
    name: "find --ignore and --maxdepth",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc find "$B" --ignore "*two*" | hasnt "two.txt"; mc find "$B" --maxdepth 2 | hasnt "three.txt"`,
  },
  {
    name: "find --larger and --smaller",
    script: `mc cp "$F/a.txt" "$B/a"; mc cp "$F/large.bin" "$B/large.bin"; is "$(mc find "$B" --larger 1MiB)" "$B/large.bin"; is "$(mc find "$B" --smaller 1MiB)" "$B/a"`,
  },
  {
    name: "find --older-than and --newer-than",
    script: `mc cp "$F/a.txt" "$B/a"; is "$(mc find "$B" --older-than 1h)" ""; is "$(mc find "$B" --newer-than 1h)" "$B/a"`,
  },
  {
    name: "find --exec",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc find "$B" --name one.txt --exec "mc cp {} $PWD/got"; cmp "$F/tree/one.txt" got`,
  },
  {
    name: "find --print with a URL",
    script: `mc cp "$F/a.txt" "$B/a"; curl -fsS "$(mc find "$B" --name a --print "{url}")" | cmp - "$F/a.txt"`,
  },
  {
    name: "find --versions",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; is "$(mc find "$B" --versions --name x | wc -l)" 2`,
  },
  {
    name: "find --metadata",
    script: `mc cp --attr "origin=tests" "$F/a.txt" "$B/a"; mc cp "$F/b.txt" "$B/b"; is "$(mc find "$B" --metadata origin=tests)" "$B/a"`,
  },
  {
    name: "find --tags",
    script: `mc cp --tags "k=v" "$F/a.txt" "$B/a"; mc cp "$F/b.txt" "$B/b"; is "$(mc find "$B" --tags k=v)" "$B/a"`,
  },
  {
    name: "mirror up and down",
    script: `mc mirror "$F/tree" "$B/"; mc mirror "$B/" got; diff -r "$F/tree" got`,
  },
  {
    name: "mirror from bucket to bucket",
    script: `mc mb "$B-to"; mc mirror "$F/tree" "$B/"; mc mirror "$B/" "$B-to"; mc mirror "$B-to" got; diff -r "$F/tree" got`,
  },
  { name: "mirror --dry-run", script: `mc mirror --dry-run "$F/tree" "$B/"; is "$(mc ls "$B")" ""` },
  {
    name: "mirror --overwrite",
    script: `mc mirror "$F/tree" "$B/"; cp -r "$F/tree" own; cat "$F/lines.txt" > own/one.txt; mc mirror --overwrite own "$B/"; mc cat "$B/one.txt" | cmp - "$F/lines.txt"`,
  },
  {
    name: "mirror --remove",
    script: `mc mirror "$F/tree" "$B/"; cp -r "$F/tree" own; rm -r own/sub; mc mirror --overwrite --remove own "$B/"; is "$(mc ls --recursive --json "$B" | jq -r .key)" "one.txt"`,
  },
  {
    name: "mirror --exclude",
    script: `mc mirror --exclude "*two*" "$F/tree" "$B/"; is "$(mc ls --recursive --json "$B" | jq -r .key | sort | paste -sd,)" "one.txt,sub/deep/three.txt"`,
  },
  {
    name: "mirror --attr and --checksum",
    script: `mc mirror --attr "origin=tests" --checksum CRC32C "$F/tree" "$B/"; mc stat --json "$B/one.txt" | jq -e '.metadata["X-Amz-Meta-Origin"] == "tests"'`,
  },
  {
    name: "mirror --preserve",
    script: `mc mirror --preserve "$F/tree" "$B/"; mc cat "$B/one.txt" | cmp - "$F/tree/one.txt"`,
  },
  {
    name: "mirror --watch of a folder",
    script: `mkdir own; mc mirror --watch own "$B/" & watch=$!
      trap 'kill $watch' EXIT
      for try in $(seq 100); do cp "$F/a.txt" "own/a$try"; mc stat "$B/a$try" >/dev/null 2>&1 && break; sleep 0.2; done
      mc cat "$B/a$try" | cmp - "$F/a.txt"`,
  },
  { name: "rm", script: `mc cp "$F/a.txt" "$B/a"; mc rm "$B/a"; fails mc stat "$B/a"` },
  { name: "rm of what is not there", script: `fails mc rm "$B/absent"` },
  {
    name: "rm --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc rm --recursive --force "$B/sub/"; is "$(mc ls --recursive --json "$B" | jq -r .key)" "one.txt"`,
  },
  {
    name: "rm --stdin",
    script: `mc cp --recursive "$F/tree/" "$B/"; printf '%s\\n' "$B/one.txt" "$B/sub/two.txt" | mc rm --force --stdin; is "$(mc ls --recursive --json "$B" | jq -r .key)" "sub/deep/three.txt"`,
  },
  {
    name: "rm --dry-run",
    script: `mc cp "$F/a.txt" "$B/a"; mc rm --dry-run "$B/a"; mc stat "$B/a" >/dev/null`,
  },
  {
    name: "rm --older-than and --newer-than",
    script: `mc cp "$F/a.txt" "$B/a"; mc rm --recursive --force --older-than 1d "$B"; mc stat "$B/a" >/dev/null; mc rm --recursive --force --newer-than 1d "$B"; fails mc stat "$B/a"`,
  },
  {
    name: "rm --version-id",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"; mc rm --version-id "$id" "$B/x"; fails mc cat --version-id "$id" "$B/x"; mc cat "$B/x" | cmp - "$F/b.txt"`,
  },
  {
    name: "rm --versions",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; mc rm --versions --force "$B/x"; is "$(mc ls --versions "$B/x")" ""`,
  },
  {
    name: "rm --non-current",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; mc rm --recursive --force --versions --non-current "$B"; is "$(mc ls --versions --json "$B/x" | jq -r .size)" "$(stat -c %s "$F/b.txt")"`,
  },
  {
    name: "rm --incomplete",
    script: `begin_upload big.bin; mc rm --incomplete --recursive --force "$B"; is "$(mc ls --incomplete --recursive "$B")" ""`,
  },
  { name: "rb", script: `mc rb "$B"; fails mc stat "$B"` },
  {
    name: "rb --force",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc rb --force "$B"; fails mc stat "$B"`,
  },
  { name: "rb of what is not there", script: `fails mc rb "$B-absent"` },
  {
    name: "tag set of an object",
    script: `mc cp "$F/a.txt" "$B/a"; mc tag set "$B/a" "a=1&b=2"; mc tag list --json "$B/a" | jq -e '.tagset == {"a":"1","b":"2"}'; mc cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "tag remove of an object",
    script: `mc cp --tags "a=1" "$F/a.txt" "$B/a"; mc tag remove "$B/a"; mc tag list "$B/a" | has "No tags found"`,
  },
  {
    name: "tag set --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc tag set --recursive "$B/" "a=1"; mc tag list --json "$B/sub/deep/three.txt" | jq -e '.tagset.a == "1"'`,
  },
  {
    name: "tag list --version-id",
    script: `mc cp --tags "a=1" "$F/a.txt" "$B/x"; id=$(version x); mc cp --tags "a=2" "$F/b.txt" "$B/x"; mc tag list --version-id "$id" --json "$B/x" | jq -e '.tagset.a == "1"'`,
  },
  {
    name: "tag list of a bucket that has none",
    script: `mc tag list "$B" 2>&1 | has "No tags found" || fails mc tag list "$B"`,
  },
  { name: "tag set of a bucket", script: `mc tag set "$B" "a=1"` },
  { name: "version info", script: `mc version info "$B" | has "versioning is enabled"` },
  { name: "version enable", script: `mc version enable "$B" | has "versioning is enabled"` },
  { name: "version suspend", script: `mc version suspend "$B"` },
  {
    name: "undo of a write",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; mc undo "$B/x" --force; mc cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "undo of a deletion",
    script: `mc cp "$F/a.txt" "$B/x"; mc rm "$B/x"; mc undo "$B/x" --force; mc cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "undo --last",
    script: `mc cp "$F/a.txt" "$B/x"; mc cp "$F/b.txt" "$B/x"; mc cp "$F/lines.txt" "$B/x"; mc undo --last 2 "$B/x" --force; mc cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "undo --recursive",
    script: `mc cp --recursive "$F/tree/" "$B/"; mc rm --recursive --force "$B/"; mc undo --recursive --force "$B/"; mc cp --recursive "$B/" got/; diff -r "$F/tree" got`,
  },
  { name: "anonymous get of a private bucket", script: `mc anonymous get "$B" | has "private"` },
  {
    name: "anonymous set download",
    script: `mc cp "$F/a.txt" "$B/a"; mc anonymous set download "$B"; seen "$URL/$BUCKET/a"; curl -fsS "$URL/$BUCKET/a" | cmp - "$F/a.txt"; mc anonymous get "$B" | has "download"`,
  },
  {
    name: "anonymous set private",
    script: `mc cp "$F/a.txt" "$B/a"; mc anonymous set download "$B"; mc anonymous set private "$B"; fails curl -fsS "$URL/$BUCKET/a"; mc anonymous get "$B" | has "private"`,
  },
  {
    name: "anonymous list and links",
    script: `mc cp "$F/a.txt" "$B/a"; mc anonymous set download "$B"; mc anonymous list "$B" | has "readonly"; seen "$URL/$BUCKET/a"; curl -fsS "$(mc anonymous links "$B")" | cmp - "$F/a.txt"`,
  },
  {
    name: "anonymous get-json and set-json",
    script: `mc anonymous set download "$B"; mc anonymous get-json "$B" > policy.json; jq -e '.Statement | length > 0' policy.json; mc anonymous set private "$B"; mc anonymous set-json policy.json "$B"; mc anonymous get "$B" | has "download\\|custom" || mc anonymous get-json "$B" | jq -e '.Statement | length > 0'`,
  },
  { name: "anonymous set public", script: `mc anonymous set public "$B"` },
  { name: "anonymous set upload", script: `mc anonymous set upload "$B"` },
  {
    name: "share download",
    script: `mc cp "$F/a.txt" "$B/a"; curl -fsS "$(mc share download --json "$B/a" | jq -r .share)" | cmp - "$F/a.txt"`,
  },
  {
    name: "share download --version-id",
    script: `mc cp "$F/a.txt" "$B/x"; id=$(version x); mc cp "$F/b.txt" "$B/x"; curl -fsS "$(mc share download --version-id "$id" --json "$B/x" | jq -r .share)" | cmp - "$F/a.txt"`,
  },
  {
    name: "share download --recursive and list",
    script: `mc cp --recursive "$F/tree/" "$B/"; is "$(mc share download --recursive --expire 1h --json "$B/" | jq -r .share | wc -l)" 3; mc share list download | has "three.txt"`,
  },
  {
    name: "share upload",
    script: `command=$(mc share upload --json "$B/a" | jq -r .share); cd "$F"; eval "\${command/<FILE>/a.txt}"; mc cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "share upload --recursive",
    script: `command=$(mc share upload --recursive --json "$B/in/" | jq -r .share); cd "$F"; command=\${command/<NAME>/b}; eval "\${command/<FILE>/b.txt}"; mc cat "$B/in/b" | cmp - "$F/b.txt"; mc share list upload | has "in/"`,
  },
  { name: "retention set --default", script: `mc retention set --default governance 1d "$B"` },
  { name: "retention info --default", script: `mc retention info --default "$B"` },
  {
    name: "retention set of an object",
    script: `mc cp "$F/a.txt" "$B/a"; mc retention set governance 1d "$B/a"`,
  },
  { name: "legalhold set", script: `mc cp "$F/a.txt" "$B/a"; mc legalhold set "$B/a"` },
  { name: "legalhold info", script: `mc cp "$F/a.txt" "$B/a"; mc legalhold info "$B/a"` },
  { name: "encrypt info", script: `mc encrypt info "$B"` },
  { name: "encrypt set sse-s3", script: `mc encrypt set sse-s3 "$B"` },
  { name: "encrypt set sse-kms", script: `mc encrypt set sse-kms my-key "$B"` },
  {
    name: "ilm rule add and ls",
    script: `mc ilm rule add --prefix logs/ --expire-days 30 "$B"; mc ilm rule ls --json "$B" | jq -e '.config.Rules[0].Expiration.Days == 30'`,
  },
  {
    name: "ilm rule add by tags",
    script: `mc ilm rule add --tags "kind=log" --expire-days 30 "$B"; mc ilm rule ls --json "$B" | jq -e '.config.Rules | length == 1'`,
  },
  {
    name: "ilm rule add --noncurrent-expire-days",
    script: `mc ilm rule add --noncurrent-expire-days 7 "$B"; mc ilm rule ls --json "$B" | jq -e '.config.Rules[0].NoncurrentVersionExpiration.NoncurrentDays == 7'`,
  },
  {
    name: "ilm rule edit",
    script: `mc ilm rule add --prefix logs/ --expire-days 30 "$B"; id=$(mc ilm rule ls --json "$B" | jq -r '.config.Rules[0].ID'); mc ilm rule edit --id "$id" --expire-days 31 "$B"; mc ilm rule ls --json "$B" | jq -e '.config.Rules[0].Expiration.Days == 31'`,
  },
  {
    name: "ilm rule rm",
    script: `mc ilm rule add --prefix a/ --expire-days 30 "$B"; mc ilm rule add --prefix b/ --expire-days 30 "$B"; id=$(mc ilm rule ls --json "$B" | jq -r '.config.Rules[0].ID'); mc ilm rule rm --id "$id" "$B"; is "$(mc ilm rule ls --json "$B" | jq '.config.Rules | length')" 1; mc ilm rule rm --all --force "$B"; fails mc ilm rule ls "$B"`,
  },
  {
    name: "ilm rule export and import",
    script: `mc ilm rule add --prefix logs/ --expire-days 30 "$B"; mc ilm rule export "$B" > rules.json; mc ilm rule rm --all --force "$B"; mc ilm rule import "$B" < rules.json; is "$(mc ilm rule export "$B" | jq -cS 'del(.Rules[].UpdatedAt, .updatedAt)')" "$(jq -cS 'del(.Rules[].UpdatedAt, .updatedAt)' rules.json)"`,
  },
  {
    name: "ilm rule add --transition-days",
    script: `mc ilm rule add --transition-days 30 --transition-tier COLD "$B"`,
  },
  { name: "ilm tier ls", script: `mc ilm tier ls here` },
  { name: "event add", script: `mc event add "$B" arn:minio:sqs::one:webhook` },
  { name: "event ls", script: `is "$(mc event ls "$B")" ""` },
  { name: "replicate ls", script: `mc replicate ls "$B" > told 2>&1 || true; has "not set" < told` },
  {
    name: "cors set, get and remove",
    script: `echo '<CORSConfiguration><CORSRule><AllowedOrigin>https://example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>' > cors.xml; mc cors set "$B" cors.xml; mc cors get "$B" | has "https://example.com"; mc cors remove "$B"; mc cors get "$B" 2>&1 | hasnt "https://example.com"`,
  },
  {
    name: "sql",
    script: `mc cp "$F/lines.txt" "$B/x.csv"; mc sql --query "select * from s3object" "$B/x.csv" > got; [ -s got ]`,
  },
  {
    name: "od",
    script: `mc od if="$F/large.bin" of="$B/od.bin" size=5MiB parts=4; mc cat "$B/od.bin" | cmp - "$F/large.bin"`,
  },
  { name: "ping", script: `mc ping --count 1 here` },
  { name: "ready", script: `timeout 5 mc ready here` },
  { name: "quota set", script: `mc quota set --size 1GiB "$B"` },
  { name: "watch", script: `mc watch "$B" 2>&1 | hasnt "not supported"` },
];
