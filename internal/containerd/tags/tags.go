package tags

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

// Ask says what is asked.
type Ask struct {
	Dir            string // with one directory per registry host (hosts.toml); empty: none
	Image          string
	User, Password string // empty: anonymously
}

// most bounds the answer that is read: a repository can have thousands of tags.
const most = 1 << 20

// List returns the tags of the image's repository, from the first host of its registry that answers.
func List(ctx context.Context, a Ask) ([]string, error) {
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
		found, err := from(ctx, h, reference.Path(named))
		if err == nil {
			return found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", h.Host, err))
	}
	return nil, errors.Join(errs...)
}

// from asks one host, a second time with what its first answer wants.
func from(ctx context.Context, h docker.RegistryHost, repository string) ([]string, error) {
	ctx = docker.ContextWithAppendPullRepositoryScope(ctx, repository)
	var asked []*http.Response
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Scheme+"://"+path.Join(h.Host, h.Path, repository, "tags/list"), nil)
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
		if res.StatusCode == http.StatusUnauthorized && h.Authorizer != nil && len(asked) == 0 {
			_ = res.Body.Close()
			if asked = append(asked, res); h.Authorizer.AddResponses(ctx, asked) == nil {
				continue
			}
		}
		return read(res)
	}
	return nil, errors.New("the credentials are not accepted")
}

func read(res *http.Response) ([]string, error) {
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", res.Status)
	}
	var list struct {
		Tags []string `json:"tags"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(&list); err != nil {
		return nil, fmt.Errorf("list of tags: %w", err)
	}
	return list.Tags, nil
}
