// Asks for a chat by net/http, and prints the answer.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	chat := strings.NewReader(`{"model":"m-1","messages":[{"role":"user","content":"hi"}]}`)
	answer, err := http.Post(os.Args[1], "application/json", chat)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		log.Fatal(err)
	}
}
