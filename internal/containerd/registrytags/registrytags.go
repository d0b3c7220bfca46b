package registrytags

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/distribution/reference"
)

// Request is the input of List.
type Request struct {
	Dir            string // with one directory per registry host (hosts.toml); empty: none
	Image          string
	User, Password string // empty: anonymous
}

// maxResponse bounds the bytes of the response that are read: a repository may have thousands of
// tags.
const maxResponse = 1 << 20

// List returns the tags of the image's repository, from the first host of its registry that
// answers.
func List(ctx context.Context, a Request) ([]string, error) {
	named, err := reference.ParseNormalizedNamed(a.Image)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", a.Image, err)
	}
	o := config.HostOptions{}
	if a.Dir != "" {
		o.HostDir = config.HostDirFromRoot(a.Dir)
	}
	if a.User != "" {
		o.Credentials = func(string) (string, string, error) { return a.User, a.Password, nil }
	}
	hosts, err := config.ConfigureHosts(ctx, o)(reference.Domain(named))
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", reference.Domain(named), err)
	}
	errs := []error{fmt.Errorf("tags of %s", a.Image)}
	for _, h := range hosts {
		found, err := listFromHost(ctx, h, reference.Path(named))
		if err == nil {
			return found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", h.Host, err))
	}
	return nil, errors.Join(errs...)
}

// listFromHost asks one host, and again with authorization if the first response requires it.
func listFromHost(ctx context.Context, h docker.RegistryHost, repository string) ([]string, error) {
	ctx = docker.ContextWithAppendPullRepositoryScope(ctx, repository)
	var parsed []*http.Response
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Scheme+"://"+path.Join(h.Host, h.Path, repository,
			"tags/list"), nil)
		if err != nil {
			return nil, err
		}
		for k, v := range h.Header {
			req.Header[k] = v
		}
		if h.Authorizer != nil {
			if err := h.Authorizer.Authorize(ctx, req); err != nil {
				return nil, err
			}
		}
		res, err := h.Client.Do(req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusUnauthorized && h.Authorizer != nil && len(parsed) == 0 {
			_ = res.Body.Close()
			if parsed = append(parsed, res); h.Authorizer.AddResponses(ctx, parsed) == nil {
				continue
			}
		}
		return readTags(res)
	}
	return nil, errors.New("the credentials are not accepted")
}

func readTags(res *http.Response) ([]string, error) {
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", res.Status)
	}
	var list struct {
		Tags []string `json:"tags"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxResponse)).Decode(&list); err != nil {
		return nil, fmt.Errorf("list of tags: %w", err)
	}
	return list.Tags, nil
}
