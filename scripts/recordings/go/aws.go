package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func awsClient() *s3.Client {
	settings := must(config.LoadDefaultConfig(context.Background()))
	return s3.NewFromConfig(settings, func(options *s3.Options) {
		options.UsePathStyle = true
		options.RetryMaxAttempts = 1
	})
}

func awsStory(_, name string) error {
	ctx, client, bucket := context.Background(), awsClient(), aws.String(name)
	must(client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket}))
	must(client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}))
	must(client.ListBuckets(ctx, &s3.ListBucketsInput{}))
	must(client.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: bucket}))

	put := func(key, body string) *s3.PutObjectOutput {
		return must(client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: bucket, Key: &key, Body: strings.NewReader(body), ContentType: aws.String("text/plain"),
			Metadata: map[string]string{"origin": "tests"},
		}))
	}
	get := func(input *s3.GetObjectInput) (string, error) {
		input.Bucket = bucket
		answer, err := client.GetObject(ctx, input)
		if err != nil {
			return "", err
		}
		return string(must(io.ReadAll(answer.Body))), nil
	}
	first := put("notes.txt", "first\n")
	put("notes.txt", "second\n")
	put("empty", "")
	must(client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("notes.txt")}))
	must(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), ChecksumMode: types.ChecksumModeEnabled}))
	must(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), VersionId: first.VersionId}))
	must(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), Range: aws.String("bytes=1-3")}))
	must(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), Range: aws.String("bytes=-4")}))
	must(get(&s3.GetObjectInput{Key: aws.String("empty")}))
	refused(get(&s3.GetObjectInput{Key: aws.String("empty"), Range: aws.String("bytes=0-99")}))
	refused(get(&s3.GetObjectInput{Key: aws.String("absent")}))
	refused(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), IfNoneMatch: put("notes.txt", "second\n").ETag}))
	refused(client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("notes.txt"), Body: strings.NewReader("third"), IfNoneMatch: aws.String("*"),
	}))
	refused(client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("notes.txt/below"), Body: strings.NewReader("below a file"),
	}))
	// A body that can be read but once goes in chunks with its checksum behind it.
	must(client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("checked"), Body: strings.NewReader("checked\n"),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	}))

	for _, key := range oddKeys {
		put(key, "in "+key)
		must(get(&s3.GetObjectInput{Key: &key}))
		// As most write it, and as s5cmd and others do: a plus sign for a space.
		for _, escaped := range []string{
			strings.ReplaceAll(url.PathEscape(key), "+", "%2B"), url.QueryEscape(key),
		} {
			must(client.CopyObject(ctx, &s3.CopyObjectInput{
				Bucket: bucket, Key: aws.String("copied/" + key), CopySource: aws.String(name + "/" + escaped),
			}))
			must(get(&s3.GetObjectInput{Key: aws.String("copied/" + key)}))
		}
	}

	large := largeBody()
	uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize, u.Concurrency = partBytes, 1 })
	must(uploader.Upload(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("large.bin"), Body: bytes.NewReader(large),
	}))
	must(get(&s3.GetObjectInput{Key: aws.String("large.bin"), Range: aws.String("bytes=5242870-5242889")}))
	upload := must(client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: bucket, Key: aws.String("odd/parts of+it.bin"),
	}))
	source := name + "/" + url.QueryEscape("odd/a b.txt")
	copied := must(client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{
		Bucket: bucket, Key: upload.Key, UploadId: upload.UploadId, PartNumber: aws.Int32(1), CopySource: &source,
	}))
	must(client.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: upload.Key, UploadId: upload.UploadId}))
	must(client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket}))
	must(client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: bucket, Key: upload.Key, UploadId: upload.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{
			{PartNumber: aws.Int32(1), ETag: copied.CopyPartResult.ETag},
		}},
	}))
	left := must(client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("left")}))
	must(client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: bucket, Key: left.Key, UploadId: left.UploadId,
	}))

	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(5)})
	for pages.HasMorePages() {
		must(pages.NextPage(ctx))
	}
	must(client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: bucket, Prefix: aws.String("odd/"), Delimiter: aws.String("/"),
	}))
	must(client.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: bucket, Prefix: aws.String("notes.txt")}))

	links := s3.NewPresignClient(client)
	link := must(links.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("odd/a b.txt")}))
	answer := must(http.Get(link.URL))
	if answer.StatusCode != 200 {
		return fmt.Errorf("the link was answered with %d", answer.StatusCode)
	}

	gone := must(client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("notes.txt")}))
	refused(get(&s3.GetObjectInput{Key: aws.String("notes.txt"), VersionId: gone.VersionId}))
	must(client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("odd/a b.txt")}, {Key: aws.String("odd/a+b.txt")}},
	}}))
	must(client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: aws.String("odd/")}))
	return nil
}
