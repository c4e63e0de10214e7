// Tells the story of an object store's day by a client for Go: `go run . <client>`, with a bucket, an endpoint and a
// key in the environment. What it sends is recorded, so it asks nothing at the same time as something else.
package main

import (
	"fmt"
	"os"
)

// Keys with what clients escape in different ways.
var oddKeys = []string{"odd/a b.txt", "odd/a+b.txt", "odd/ü 😀.txt", "odd/50%.txt"}

// Bodies are runs of letters: a recording is read by people.
const partBytes = 5 << 20

func largeBody() []byte {
	body := make([]byte, 2*partBytes+1000)
	for i := range body {
		body[i] = "abc"[i/partBytes]
	}
	return body
}

func main() {
	stories := map[string]func(endpoint, bucket string) error{
		"aws-sdk-go":    awsStory,
		"aws-sdk-go-v1": awsV1Story,
		"gocloud":       gocloudStory,
		"minio-go":      minioStory,
	}
	story := stories[os.Args[1]]
	if err := story(os.Getenv("AWS_ENDPOINT_URL"), os.Getenv("BUCKET")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// must ends the story at the first thing that a client says is wrong.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// refused ends the story if a client was let through.
func refused[T any](value T, err error) {
	if err == nil {
		panic(fmt.Sprintf("%v was let through", value))
	}
}
