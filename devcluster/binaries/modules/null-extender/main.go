// The null extender answers a kube-scheduler's verbs without deciding anything: every node fits, none is better,
// and a bind is posted as it was asked for. It is the floor of measurements: what the extender protocol costs.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const prefix = "GPU_BOOKING_"

type filterArguments struct {
	NodeNames json.RawMessage
}

type bindArguments struct {
	PodName, PodNamespace, PodUID, Node string
}

type binder struct {
	client *http.Client
	server string
	token  string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	authority, err := os.ReadFile(os.Getenv(prefix + "KUBE_CA_FILE"))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(os.Getenv(prefix + "KUBE_TOKEN_FILE"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64}
	posts := &binder{
		client: &http.Client{Transport: transport},
		server: os.Getenv(prefix + "KUBE_SERVER"),
		token:  strings.TrimSpace(string(token)),
	}
	http.HandleFunc("/filter", filter)
	http.HandleFunc("/prioritize", func(writer http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		answer(writer, []byte("[]"))
	})
	http.HandleFunc("/bind", posts.bind)
	return http.ListenAndServe(":"+os.Getenv(prefix+"PORT"), nil)
}

func filter(writer http.ResponseWriter, request *http.Request) {
	var asked filterArguments
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	answer(writer, []byte(`{"NodeNames":`+string(asked.NodeNames)+`}`))
}

func (b *binder) bind(writer http.ResponseWriter, request *http.Request) {
	var asked bindArguments
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	message := ""
	if err := b.post(asked); err != nil {
		message = err.Error()
	}
	encoded, _ := json.Marshal(map[string]string{"Error": message})
	answer(writer, encoded)
}

func (b *binder) post(asked bindArguments) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Binding",
		"metadata":   map[string]string{"name": asked.PodName, "namespace": asked.PodNamespace, "uid": asked.PodUID},
		"target":     map[string]string{"apiVersion": "v1", "kind": "Node", "name": asked.Node},
	})
	if err != nil {
		return err
	}
	path := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", b.server, asked.PodNamespace, asked.PodName)
	request, err := http.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+b.token)
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("the API server answers %s: %s", response.Status, text)
	}
	return nil
}

func answer(writer http.ResponseWriter, body []byte) {
	writer.Header().Set("Content-Type", "application/json")
	_, _ = writer.Write(body)
}
