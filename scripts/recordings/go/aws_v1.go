package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/s3"
	"github.com/aws/aws-sdk-go/service/s3/s3manager"
)

// The SDK before, which s5cmd and others stand on.
func awsV1Story(endpoint, name string) error {
	settings := must(session.NewSession(&aws.Config{
		Endpoint: &endpoint, Region: aws.String("us-east-1"),
		S3ForcePathStyle: aws.Bool(true), MaxRetries: aws.Int(0),
	}))
	client, bucket := s3.New(settings), aws.String(name)
	uploader := s3manager.NewUploader(settings, func(u *s3manager.Uploader) { u.PartSize, u.Concurrency = partBytes, 1 })
	downloader := s3manager.NewDownloader(settings, func(d *s3manager.Downloader) { d.PartSize, d.Concurrency = partBytes, 1 })
	upload := func(key string, body []byte) {
		must(uploader.Upload(&s3manager.UploadInput{
			Bucket: bucket, Key: &key, Body: bytes.NewReader(body), ContentType: aws.String("text/plain"),
			Metadata: map[string]*string{"origin": aws.String("tests")}, StorageClass: aws.String("STANDARD"),
		}))
	}
	// It asks for the first part of everything, also of what is empty.
	download := func(key string) ([]byte, error) {
		buffer := aws.NewWriteAtBuffer(nil)
		_, err := downloader.Download(buffer, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		return buffer.Bytes(), err
	}

	must(client.CreateBucket(&s3.CreateBucketInput{Bucket: bucket}))
	must(client.HeadBucket(&s3.HeadBucketInput{Bucket: bucket}))
	must(client.ListBuckets(&s3.ListBucketsInput{}))
	must(client.GetBucketLocation(&s3.GetBucketLocationInput{Bucket: bucket}))
	upload("notes.txt", []byte("first\n"))
	upload("notes.txt", []byte("second\n"))
	upload("empty", nil)
	upload("large.bin", largeBody())
	for _, key := range []string{"notes.txt", "empty", "large.bin"} {
		must(client.HeadObject(&s3.HeadObjectInput{Bucket: bucket, Key: &key}))
		must(download(key))
	}
	if !bytes.Equal(must(download("large.bin")), largeBody()) {
		return fmt.Errorf("large.bin came back as something else")
	}
	refused(download("absent"))
	refused(client.HeadObject(&s3.HeadObjectInput{Bucket: bucket, Key: aws.String("absent")}))
	refused(client.PutObject(&s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("notes.txt/below"), Body: strings.NewReader("below a file"),
	}))

	for _, key := range oddKeys {
		upload(key, []byte("in "+key))
		words := strings.Split(key, "/")
		for n, word := range words {
			words[n] = url.QueryEscape(word)
		}
		must(client.CopyObject(&s3.CopyObjectInput{
			Bucket: bucket, Key: aws.String("copied/" + key), CopySource: aws.String(name + "/" + strings.Join(words, "/")),
		}))
		if body := must(download("copied/" + key)); string(body) != "in "+key {
			return fmt.Errorf("the copy of %s is %q", key, body)
		}
	}

	check(client.ListObjectsV2Pages(&s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int64(4)},
		func(*s3.ListObjectsV2Output, bool) bool { return true }))
	check(client.ListObjectsPages(&s3.ListObjectsInput{Bucket: bucket, Delimiter: aws.String("/"), MaxKeys: aws.Int64(4)},
		func(*s3.ListObjectsOutput, bool) bool { return true }))
	check(client.ListObjectVersionsPages(&s3.ListObjectVersionsInput{Bucket: bucket, MaxKeys: aws.Int64(4)},
		func(*s3.ListObjectVersionsOutput, bool) bool { return true }))
	request, _ := client.GetObjectRequest(&s3.GetObjectInput{Bucket: bucket, Key: aws.String("odd/a b.txt")})
	must(http.Get(must(request.Presign(time.Hour))))

	doomed := []*s3.ObjectIdentifier{}
	for _, key := range oddKeys {
		doomed = append(doomed, &s3.ObjectIdentifier{Key: &key})
	}
	must(client.DeleteObjects(&s3.DeleteObjectsInput{Bucket: bucket, Delete: &s3.Delete{Objects: doomed}}))
	must(client.DeleteObject(&s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("notes.txt")}))
	return nil
}
