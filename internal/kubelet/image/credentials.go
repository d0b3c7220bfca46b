package image

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// entry is one registry of a Docker configuration.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
	source        string // where it came from
	key           string // registry as the configuration spells it
	host, path    string
}

// Credential is a way to log in to the registry of an image.
type Credential struct {
	Auth   *runtimeapi.AuthConfig
	Source string // namespace/name of the secret
}

// Credentials picks from the Pod's pull secrets those that fit the image, the most specific registry path first, then in the order of the secrets. Secrets that cannot
// be read are left out and reported: the pull goes on without them, as upstream's does.
func Credentials(image string, secrets []*v1.Secret) ([]Credential, []error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, []error{err}
	}
	host, repo := reference.Domain(named), reference.Path(named)
	var all []entry
	var bad []error
	for _, s := range secrets {
		entries, err := parse(s)
		if err != nil {
			bad = append(bad, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err))
			continue
		}
		all = append(all, entries...)
	}
	// Longer paths are more specific. The sort is stable, so equal ones keep the order of the secrets.
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(len(b.path), len(a.path)) })
	var out []Credential
	for _, e := range all {
		if e.fits(host, repo) {
			out = append(out, Credential{Auth: e.config(), Source: e.source})
		}
	}
	return out, bad
}

func parse(s *v1.Secret) ([]entry, error) {
	var m map[string]entry
	switch s.Type {
	case v1.SecretTypeDockerConfigJson:
		var file struct {
			Auths map[string]entry `json:"auths"`
		}
		if err := json.Unmarshal(s.Data[v1.DockerConfigJsonKey], &file); err != nil {
			return nil, fmt.Errorf("%s: %w", v1.DockerConfigJsonKey, err)
		}
		m = file.Auths
	case v1.SecretTypeDockercfg:
		if err := json.Unmarshal(s.Data[v1.DockerConfigKey], &m); err != nil {
			return nil, fmt.Errorf("%s: %w", v1.DockerConfigKey, err)
		}
	default:
		return nil, fmt.Errorf("type %q holds no registry credentials, want %s or %s", s.Type, v1.SecretTypeDockerConfigJson, v1.SecretTypeDockercfg)
	}
	out := make([]entry, 0, len(m))
	for key, e := range m {
		e.key, e.source = key, s.Namespace+"/"+s.Name
		if err := e.read(); err != nil {
			return nil, fmt.Errorf("registry %q: %w", key, err)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}

// read fills in user and password from auth, and host and path from the key: [scheme://]host[:port][/path].
func (e *entry) read() error {
	if e.Auth != "" {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.Auth))
		if err != nil {
			raw, err = base64.RawStdEncoding.DecodeString(strings.TrimSpace(e.Auth))
		}
		if err != nil {
			return fmt.Errorf("auth is not base64: %w", err)
		}
		user, password, ok := strings.Cut(string(raw), ":")
		if !ok {
			return fmt.Errorf("auth decodes to no user:password")
		}
		e.Username, e.Password = user, strings.TrimRight(password, "\x00")
	}
	key := e.key
	if !strings.Contains(key, "://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil {
		return err
	}
	e.host, e.path = u.Host, strings.Trim(u.Path, "/")
	// https://index.docker.io/v1/ and the like name an API version, not a repository.
	if e.path == "v1" || e.path == "v2" {
		e.path = ""
	} else {
		e.path = strings.TrimPrefix(strings.TrimPrefix(e.path, "v1/"), "v2/")
	}
	if e.host == "index.docker.io" || e.host == "registry-1.docker.io" {
		e.host = "docker.io"
	}
	return nil
}

// fits: equal host (with * for one part of the name, as in *.example.com), equal port, and a path that is a leading part of the repository.
func (e *entry) fits(host, repo string) bool {
	wantName, wantPort := split(e.host)
	name, port := split(host)
	if wantPort != port {
		return false
	}
	want, got := strings.Split(wantName, "."), strings.Split(name, ".")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], got[i]); err != nil || !ok {
			return false
		}
	}
	return strings.HasPrefix(repo, e.path)
}

func split(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i], host[i+1:]
	}
	return host, ""
}

func (e *entry) config() *runtimeapi.AuthConfig {
	return &runtimeapi.AuthConfig{
		Username: e.Username, Password: e.Password,
		IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
}
