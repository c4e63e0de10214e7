package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
)

func makeBucket(ctx context.Context, name string) error {
	_, err := awsClient().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	return err
}

func minioStory(endpoint, name string) error {
	ctx, at := context.Background(), must(url.Parse(endpoint))
	client := must(minio.New(at.Host, &minio.Options{
		Creds:      credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
		Region:     "us-east-1",
		MaxRetries: 1,
		// Checksums go behind chunks that are signed.
		TrailingHeaders: true,
	}))
	check(client.MakeBucket(ctx, name, minio.MakeBucketOptions{}))
	must(client.BucketExists(ctx, name))
	must(client.ListBuckets(ctx))

	put := func(key, body string, options minio.PutObjectOptions) (minio.UploadInfo, error) {
		return client.PutObject(ctx, name, key, strings.NewReader(body), int64(len(body)), options)
	}
	get := func(key string, options minio.GetObjectOptions) (string, error) {
		object, err := client.GetObject(ctx, name, key, options)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(object)
		return string(body), err
	}
	first := must(put("notes.txt", "first\n", minio.PutObjectOptions{
		ContentType: "text/plain", UserMetadata: map[string]string{"origin": "tests"},
	}))
	must(put("notes.txt", "second\n", minio.PutObjectOptions{DisableContentSha256: true}))
	must(put("empty", "", minio.PutObjectOptions{}))
	must(put("checked", "checked\n", minio.PutObjectOptions{Checksum: minio.ChecksumSHA256}))
	must(put("summed", "summed\n", minio.PutObjectOptions{SendContentMd5: true}))
	must(get("notes.txt", minio.GetObjectOptions{}))
	must(get("notes.txt", minio.GetObjectOptions{VersionID: first.VersionID}))
	must(get("empty", minio.GetObjectOptions{}))
	part := minio.GetObjectOptions{}
	check(part.SetRange(1, 3))
	must(get("notes.txt", part))
	must(client.StatObject(ctx, name, "notes.txt", minio.StatObjectOptions{Checksum: true}))
	refused(client.StatObject(ctx, name, "absent", minio.StatObjectOptions{}))
	refused(get("absent", minio.GetObjectOptions{}))
	only := minio.PutObjectOptions{}
	only.SetMatchETagExcept("*")
	refused(put("notes.txt", "third\n", only))
	refused(put("notes.txt/below", "below a file\n", minio.PutObjectOptions{}))
	must(client.GetObjectAttributes(ctx, name, "notes.txt", minio.ObjectAttributesOptions{}))

	for _, key := range oddKeys {
		must(put(key, "in "+key, minio.PutObjectOptions{}))
		must(client.CopyObject(ctx, minio.CopyDestOptions{Bucket: name, Object: "copied/" + key},
			minio.CopySrcOptions{Bucket: name, Object: key}))
		must(get("copied/"+key, minio.GetObjectOptions{}))
	}
	must(client.CopyObject(ctx, minio.CopyDestOptions{Bucket: name, Object: "back.txt"},
		minio.CopySrcOptions{Bucket: name, Object: "notes.txt", VersionID: first.VersionID}))

	large := largeBody()
	must(client.PutObject(ctx, name, "large.bin", bytes.NewReader(large), int64(len(large)),
		minio.PutObjectOptions{PartSize: partBytes, NumThreads: 1}))
	must(client.PutObject(ctx, name, "large-plain.bin", bytes.NewReader(large), int64(len(large)),
		minio.PutObjectOptions{PartSize: partBytes, NumThreads: 1, DisableContentSha256: true}))
	must(client.PutObject(ctx, name, "large-streamed.bin", io.MultiReader(bytes.NewReader(large)), -1,
		minio.PutObjectOptions{PartSize: partBytes, NumThreads: 1}))
	must(client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: name, Object: "composed.bin"},
		minio.CopySrcOptions{Bucket: name, Object: "large.bin"},
		minio.CopySrcOptions{Bucket: name, Object: "odd/a b.txt"}))

	for _, options := range []minio.ListObjectsOptions{
		{Prefix: "odd/"}, {Recursive: true, MaxKeys: 5}, {Recursive: true, UseV1: true},
		{Prefix: "notes.txt", WithVersions: true},
	} {
		for object := range client.ListObjects(ctx, name, options) {
			check(object.Err)
		}
	}
	// MinIO's own: a listing with what is kept beside the bytes.
	for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{WithMetadata: true}) {
		refused(object, object.Err)
	}
	for upload := range client.ListIncompleteUploads(ctx, name, "", true) {
		check(upload.Err)
	}
	link := must(client.PresignedGetObject(ctx, name, "odd/a b.txt", time.Hour, nil))
	must(http.Get(link.String()))

	rules := lifecycle.NewConfiguration()
	rules.Rules = []lifecycle.Rule{{
		ID: "logs", Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: "logs/"},
		Expiration: lifecycle.Expiration{Days: 30},
	}}
	check(client.SetBucketLifecycle(ctx, name, rules))
	must(client.GetBucketLifecycle(ctx, name))
	_, _, err := client.GetBucketLifecycleWithInfo(ctx, name)
	check(err)
	check(client.SetBucketLifecycle(ctx, name, lifecycle.NewConfiguration()))
	must(client.GetBucketVersioning(ctx, name))

	check(client.RemoveObject(ctx, name, "notes.txt", minio.RemoveObjectOptions{}))
	check(client.RemoveObject(ctx, name, "summed", minio.RemoveObjectOptions{GovernanceBypass: true}))
	doomed := make(chan minio.ObjectInfo, len(oddKeys))
	for _, key := range oddKeys {
		doomed <- minio.ObjectInfo{Key: key}
	}
	close(doomed)
	for failed := range client.RemoveObjects(ctx, name, doomed, minio.RemoveObjectsOptions{}) {
		check(failed.Err)
	}
	return nil
}
