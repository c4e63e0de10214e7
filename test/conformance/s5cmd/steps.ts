import type { Step } from "../scripted.ts";

/** What `s5cmd` does to a bucket, command by command. */
export const S5CMD_STEPS: readonly Step[] = [
  { name: "mb", script: `s5cmd mb "$B-made"; s5cmd ls | has "$BUCKET-made"` },
  { name: "mb of a bucket that is there", script: `fails s5cmd mb "$B"` },
  { name: "ls of all buckets", script: `s5cmd ls | has "$BUCKET"` },
  {
    name: "ls of a bucket",
    script: `s5cmd cp "$F/a.txt" "$B/a.txt"; s5cmd cp "$F/b.txt" "$B/folder/b.txt"
      is "$(s5cmd --json ls "$B" | jq -r .key | sort | paste -sd,)" "$B/a.txt,$B/folder/"`,
  },
  {
    name: "ls of all keys",
    script: `s5cmd cp "$F/tree/" "$B/"; is "$(s5cmd ls --show-fullpath "$B/*" | sort | paste -sd,)" "$B/one.txt,$B/sub/deep/three.txt,$B/sub/two.txt"`,
  },
  { name: "ls of nothing", script: `is "$(s5cmd ls "$B")" ""` },
  {
    name: "ls by version 1 of lists",
    script: `s5cmd cp "$F/a.txt" "$B/a.txt"; s5cmd --use-list-objects-v1 ls "$B" | has "a.txt"`,
  },
  {
    name: "ls --etag and --storage-class",
    script: `s5cmd cp "$F/a.txt" "$B/a.txt"; s5cmd ls --etag --storage-class "$B" | has "STANDARD"`,
  },
  {
    name: "ls --exclude",
    script: `s5cmd cp "$F/tree/" "$B/"; s5cmd ls --exclude "*two*" "$B/*" | hasnt "two.txt"`,
  },
  {
    name: "ls --all-versions",
    script: `s5cmd cp "$F/a.txt" "$B/x"; s5cmd cp "$F/b.txt" "$B/x"; s5cmd rm "$B/x"
      is "$(s5cmd ls --all-versions "$B/x" | awk '{ print $NF }' | sort -u | wc -l)" 3`,
  },
  {
    name: "cp up and down",
    script: `s5cmd cp "$F/a.txt" "$B/folder/a.txt"; s5cmd cp "$B/folder/a.txt" got; cmp "$F/a.txt" got`,
  },
  {
    name: "cp of an empty file",
    script: `s5cmd cp "$F/empty" "$B/empty"; s5cmd cp "$B/empty" got; cmp "$F/empty" got`,
  },
  {
    name: "cp in parts",
    script: `s5cmd cp --part-size 5 --concurrency 3 "$F/large.bin" "$B/large.bin"; s5cmd cp --part-size 5 --concurrency 3 "$B/large.bin" got; cmp "$F/large.bin" got`,
  },
  {
    name: "cp of a folder up and down",
    script: `s5cmd cp "$F/tree/" "$B/tree/"; s5cmd cp "$B/tree/*" got/; diff -r "$F/tree" got`,
  },
  {
    name: "cp --flatten",
    script: `s5cmd cp "$F/tree/" "$B/"; s5cmd cp --flatten "$B/*" got/; is "$(ls got | paste -sd,)" "one.txt,three.txt,two.txt"`,
  },
  {
    name: "cp --include and --exclude",
    script: `s5cmd cp --exclude "*two*" "$F/tree/" "$B/"; s5cmd cp --include "*three*" "$B/*" got/; is "$(find got -type f | paste -sd,)" "got/sub/deep/three.txt"`,
  },
  {
    name: "cp of odd names",
    script: `for name in "a b" "a+b" "50%" "ü 😀" "(1) {3}" "q&=#"; do
        cp "$F/a.txt" "$name"; s5cmd cp --raw "$name" "$B/odd/$name"; s5cmd cp --raw "$B/odd/$name" "$B/copied/$name"
        s5cmd cat --raw "$B/copied/$name" | cmp - "$F/a.txt"
      done`,
  },
  {
    name: "cp of an object",
    script: `s5cmd cp "$F/a.txt" "$B/a"; s5cmd cp "$B/a" "$B/b"; s5cmd cat "$B/b" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp of objects to another bucket",
    script: `s5cmd mb "$B-to"; s5cmd cp "$F/tree/" "$B/"; s5cmd cp "$B/*" "$B-to/"; s5cmd cp "$B-to/*" got/; diff -r "$F/tree" got`,
  },
  {
    name: "cp --no-clobber",
    script: `s5cmd cp "$F/a.txt" "$B/x"; s5cmd cp --no-clobber "$F/b.txt" "$B/x"; s5cmd cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --if-size-differ",
    script: `s5cmd cp "$F/a.txt" "$B/x"; tr a-z A-Z < "$F/a.txt" > same; s5cmd cp --if-size-differ same "$B/x"; s5cmd cat "$B/x" | cmp - "$F/a.txt"; s5cmd cp --if-size-differ "$F/b.txt" "$B/x"; s5cmd cat "$B/x" | cmp - "$F/b.txt"`,
  },
  {
    name: "cp --if-source-newer",
    script: `s5cmd cp "$F/a.txt" "$B/x"; cp "$F/b.txt" old; touch -d 2020-01-02T03:04:05Z old; s5cmd cp --if-source-newer old "$B/x"; s5cmd cat "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp with what is kept beside the bytes",
    script: `s5cmd cp --content-type text/csv --cache-control max-age=90 --content-disposition inline --content-encoding identity --metadata origin=tests --expires 2030-01-02T03:04:05Z "$F/a.txt" "$B/x"
      s5cmd head "$B/x" | has "text/csv"; s5cmd head "$B/x" | has "tests"`,
  },
  {
    name: "cp --metadata-directive REPLACE",
    script: `s5cmd cp --metadata origin=tests "$F/a.txt" "$B/a"; s5cmd cp --metadata-directive REPLACE --metadata origin=others "$B/a" "$B/b"; s5cmd head "$B/b" | has "others"`,
  },
  {
    name: "cp --acl private",
    script: `s5cmd cp --acl private "$F/a.txt" "$B/a"; s5cmd cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --acl bucket-owner-full-control",
    script: `s5cmd cp --acl bucket-owner-full-control "$F/a.txt" "$B/a"; s5cmd cat "$B/a" | cmp - "$F/a.txt"`,
  },
  {
    name: "cp --storage-class STANDARD",
    script: `s5cmd cp --storage-class STANDARD "$F/a.txt" "$B/a"; s5cmd cat "$B/a" | cmp - "$F/a.txt"`,
  },
  { name: "cp --storage-class GLACIER", script: `s5cmd cp --storage-class GLACIER "$F/a.txt" "$B/a"` },
  {
    name: "cp --sse AES256",
    script: `s5cmd cp --sse AES256 "$F/a.txt" "$B/a"; s5cmd cat "$B/a" | cmp - "$F/a.txt"`,
  },
  { name: "cp --sse aws:kms", script: `s5cmd cp --sse aws:kms --sse-kms-key-id my-key "$F/a.txt" "$B/a"` },
  {
    name: "cp --version-id",
    script: `s5cmd cp "$F/a.txt" "$B/x"; id=$(version x); s5cmd cp "$F/b.txt" "$B/x"; s5cmd cp --version-id "$id" "$B/x" got; cmp "$F/a.txt" got`,
  },
  { name: "cp of what is not there", script: `fails s5cmd cp "$B/absent" got; [ ! -s got ]` },
  {
    name: "cp with the regions of source and destination",
    script: `s5cmd mb "$B-to"; s5cmd cp "$F/a.txt" "$B/a"; s5cmd cp --source-region us-east-1 --destination-region us-east-1 "$B/a" "$B-to/a"; s5cmd cat "$B-to/a" | cmp - "$F/a.txt"`,
  },
  { name: "cp --dry-run", script: `s5cmd --dry-run cp "$F/a.txt" "$B/a"; fails s5cmd head "$B/a"` },
  {
    name: "mv of a file and of an object",
    script: `cp "$F/a.txt" own; s5cmd mv own "$B/a"; [ ! -e own ]; s5cmd mv "$B/a" "$B/b"; fails s5cmd head "$B/a"; s5cmd mv "$B/b" got; cmp "$F/a.txt" got; fails s5cmd head "$B/b"`,
  },
  {
    name: "mv of many objects",
    script: `s5cmd cp "$F/tree/" "$B/from/"; s5cmd mv "$B/from/*" "$B/to/"; s5cmd cp "$B/to/*" got/; diff -r "$F/tree" got; fails s5cmd ls "$B/from/"`,
  },
  { name: "rm", script: `s5cmd cp "$F/a.txt" "$B/a"; s5cmd rm "$B/a"; fails s5cmd head "$B/a"` },
  {
    name: "rm of many objects",
    script: `s5cmd cp "$F/tree/" "$B/"; s5cmd rm "$B/sub/*"; is "$(s5cmd ls --show-fullpath "$B/*")" "$B/one.txt"`,
  },
  {
    name: "rm --exclude",
    script: `s5cmd cp "$F/tree/" "$B/"; s5cmd rm --exclude "*one*" "$B/*"; is "$(s5cmd ls --show-fullpath "$B/*")" "$B/one.txt"`,
  },
  {
    name: "rm --version-id",
    script: `s5cmd cp "$F/a.txt" "$B/x"; id=$(version x); s5cmd cp "$F/b.txt" "$B/x"; s5cmd rm --version-id "$id" "$B/x"; fails s5cmd cat --version-id "$id" "$B/x"; s5cmd cat "$B/x" | cmp - "$F/b.txt"`,
  },
  {
    name: "rm --all-versions",
    script: `s5cmd cp "$F/a.txt" "$B/x"; s5cmd cp "$F/b.txt" "$B/x"; s5cmd rm --all-versions "$B/*"; fails s5cmd ls --all-versions "$B/*"`,
  },
  {
    name: "du",
    script: `s5cmd cp "$F/tree/" "$B/"; is "$(s5cmd --json du "$B/*" | jq -r '"\\(.size) \\(.count)"')" "$(cat "$F"/tree/one.txt "$F"/tree/sub/two.txt "$F"/tree/sub/deep/three.txt | wc -c) 3"`,
  },
  {
    name: "du --group and --humanize",
    script: `s5cmd cp "$F/tree/" "$B/"; s5cmd du --group --humanize "$B/*" | has "STANDARD"`,
  },
  {
    name: "du --all-versions",
    script: `s5cmd cp "$F/a.txt" "$B/x"; s5cmd cp "$F/b.txt" "$B/x"; is "$(s5cmd --json du --all-versions "$B/*" | jq .size)" "$(cat "$F/a.txt" "$F/b.txt" | wc -c)"`,
  },
  {
    name: "cat",
    script: `s5cmd cp "$F/large.bin" "$B/x"; s5cmd cat --part-size 5 --concurrency 3 "$B/x" | cmp - "$F/large.bin"`,
  },
  {
    name: "cat --version-id",
    script: `s5cmd cp "$F/a.txt" "$B/x"; id=$(version x); s5cmd cp "$F/b.txt" "$B/x"; s5cmd cat --version-id "$id" "$B/x" | cmp - "$F/a.txt"`,
  },
  {
    name: "pipe",
    script: `s5cmd pipe --part-size 5 --metadata origin=tests "$B/x" < "$F/large.bin"; s5cmd cat "$B/x" | cmp - "$F/large.bin"; s5cmd head "$B/x" | has "tests"`,
  },
  {
    name: "run",
    script: `printf 'cp %s %s\\n' "$F/a.txt" "$B/a" "$F/b.txt" "$B/b" > commands; s5cmd run commands; s5cmd cat "$B/a" | cmp - "$F/a.txt"; s5cmd cat "$B/b" | cmp - "$F/b.txt"`,
  },
  {
    name: "sync up and down",
    script: `s5cmd sync "$F/tree/" "$B/"; s5cmd sync "$B/*" got/; diff -r "$F/tree" got`,
  },
  {
    name: "sync --delete",
    script: `s5cmd sync "$F/tree/" "$B/"; cp -r "$F/tree" own; rm -r own/sub; s5cmd sync --delete own/ "$B/"; is "$(s5cmd ls --show-fullpath "$B/*")" "$B/one.txt"`,
  },
  {
    name: "sync --size-only",
    script: `s5cmd sync "$F/tree/" "$B/"; cp -r "$F/tree" own; cat "$F/a.txt" > own/one.txt; s5cmd sync --size-only own/ "$B/"; s5cmd cat "$B/one.txt" | cmp - "$F/a.txt"`,
  },
  {
    name: "sync from bucket to bucket",
    script: `s5cmd mb "$B-to"; s5cmd sync "$F/tree/" "$B/"; s5cmd sync "$B/*" "$B-to/"; s5cmd sync "$B-to/*" got/; diff -r "$F/tree" got`,
  },
  { name: "bucket-version", script: `s5cmd bucket-version "$B" | has "Enabled"` },
  { name: "bucket-version --set Enabled", script: `s5cmd bucket-version --set Enabled "$B" | has "Enabled"` },
  { name: "bucket-version --set Suspended", script: `s5cmd bucket-version --set Suspended "$B"` },
  {
    name: "presign",
    script: `s5cmd cp "$F/a.txt" "$B/a"; curl -fsS "$(s5cmd presign "$B/a")" | cmp - "$F/a.txt"`,
  },
  {
    name: "presign --expire",
    script: `s5cmd cp "$F/a.txt" "$B/a"; curl -fsS "$(s5cmd presign --expire 1h "$B/a")" | cmp - "$F/a.txt"`,
  },
  {
    name: "head of an object",
    script: `s5cmd cp "$F/a.txt" "$B/a"; s5cmd head "$B/a" | jq -e ".size == $(stat -c %s "$F/a.txt") and .content_type == \\"text/plain; charset=utf-8\\""`,
  },
  { name: "head of a bucket", script: `s5cmd head "$B"; fails s5cmd head "$B-absent"` },
  { name: "rb", script: `s5cmd rb "$B"; fails s5cmd head "$B"` },
  {
    name: "select",
    script: `s5cmd cp "$F/lines.txt" "$B/x.csv"; s5cmd select csv --query "SELECT * FROM s3object s" "$B/x.csv" > got; [ -s got ]`,
  },
];
