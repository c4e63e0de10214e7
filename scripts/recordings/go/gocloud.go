package main

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

func gocloudStory(_, name string) error {
	ctx := context.Background()
	check(makeBucket(ctx, name))
	bucket := must(s3blob.OpenBucketV2(ctx, awsClient(), name, nil))
	defer bucket.Close()
	must(bucket.IsAccessible(ctx))

	check(bucket.WriteAll(ctx, "notes.txt", []byte("first\n"), &blob.WriterOptions{
		ContentType: "text/plain", Metadata: map[string]string{"origin": "tests"},
	}))
	check(bucket.WriteAll(ctx, "empty", nil, nil))
	must(bucket.ReadAll(ctx, "notes.txt"))
	must(bucket.ReadAll(ctx, "empty"))
	must(bucket.Attributes(ctx, "notes.txt"))
	must(bucket.Exists(ctx, "absent"))
	refused(bucket.ReadAll(ctx, "absent"))
	refused[any](nil, bucket.WriteAll(ctx, "notes.txt", []byte("new"), &blob.WriterOptions{IfNotExist: true}))
	part := must(bucket.NewRangeReader(ctx, "notes.txt", 1, 3, nil))
	must(io.ReadAll(part))
	check(part.Close())

	for _, key := range oddKeys {
		check(bucket.WriteAll(ctx, key, []byte("in "+key), nil))
		check(bucket.Copy(ctx, "copied/"+key, key, nil))
		must(bucket.ReadAll(ctx, "copied/"+key))
	}
	writer := must(bucket.NewWriter(ctx, "large.bin", &blob.WriterOptions{BufferSize: partBytes, MaxConcurrency: 1}))
	must(io.Copy(writer, bytes.NewReader(largeBody())))
	check(writer.Close())

	listing := bucket.List(&blob.ListOptions{Delimiter: "/"})
	for {
		if _, err := listing.Next(ctx); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	must(http.Get(must(bucket.SignedURL(ctx, "odd/a b.txt", nil))))
	for _, key := range oddKeys {
		check(bucket.Delete(ctx, key))
	}
	refused[any](nil, bucket.Delete(ctx, "absent"))
	return nil
}
