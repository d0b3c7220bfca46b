package images

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
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// entry is one registry of a Docker configuration.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
	origin        Origin
	key           string // registry as the configuration spells it
	host, path    string
}

// Origin is where a credential comes from: a secret, a plugin that was shown a service account's
// token, or the node.
type Origin struct {
	Name           string                           // for people: namespace/name of the secret, the plugin, the file
	Secret         *kubelet.ImagePullSecret         // without its hash
	ServiceAccount *kubelet.ImagePullServiceAccount // of the Pod, when the credential is for its Pods only
}

// NodeWide tells whether every Pod of the node may use what comes from there.
func (o Origin) NodeWide() bool { return o.Secret == nil && o.ServiceAccount == nil }

// Credential is a way to log in to the registry of an image.
type Credential struct {
	Auth   *runtimeapi.AuthConfig
	Origin Origin
}

// Credentials picks from the Pod's pull secrets those that fit the image, the most specific
// registry path first, then in the order of the secrets. Secrets that cannot be read are left out
// and reported: the pull goes on without them, as upstream's does.
func Credentials(image string, secrets []*v1.Secret) ([]Credential, []error) {
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
	out, err := matching(image, all)
	if err != nil {
		bad = append(bad, err)
	}
	return out, bad
}

// Login is a user and a password of a registry.
type Login struct{ Username, Password string }

// FromLogins picks from logins by registry, as credential provider plugins answer them, those that
// fit the image.
func FromLogins(image string, from Origin, logins map[string]Login) ([]Credential, error) {
	m := make(map[string]entry, len(logins))
	for key, l := range logins {
		m[key] = entry{Username: l.Username, Password: l.Password}
	}
	all, err := read(m, from)
	if err != nil {
		return nil, err
	}
	return matching(image, all)
}

// FromDockerConfig picks from the text of a config.json those credentials that fit the image.
func FromDockerConfig(image string, from Origin, text []byte) ([]Credential, error) {
	m, err := dockerConfig(text)
	if err != nil {
		return nil, err
	}
	all, err := read(m, from)
	if err != nil {
		return nil, err
	}
	return matching(image, all)
}

// Registries are the registries that a secret holds credentials for, as it spells them.
func Registries(s *v1.Secret) ([]string, error) {
	entries, err := parse(s)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.key)
	}
	return out, nil
}

// Matches tells whether a pattern ([*.]host[:port][/path], as in matchImages and in pull secrets)
// covers the image.
func Matches(pattern, image string) (bool, error) {
	e := entry{key: pattern}
	if err := e.read(); err != nil {
		return false, err
	}
	host, repo, err := splitHost(image)
	if err != nil {
		return false, err
	}
	return e.matches(host, repo), nil
}

func splitHost(image string) (host, repo string, err error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", "", err
	}
	return reference.Domain(named), reference.Path(named), nil
}

// matching are the entries for an image. Longer paths are more specific; the sort is stable, so
// equal ones keep their order.
func matching(image string, all []entry) ([]Credential, error) {
	host, repo, err := splitHost(image)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(len(b.path), len(a.path)) })
	var out []Credential
	for _, e := range all {
		if e.matches(host, repo) {
			out = append(out, Credential{Auth: e.config(), Origin: e.origin})
		}
	}
	return out, nil
}

func dockerConfig(text []byte) (map[string]entry, error) {
	var file struct {
		Auths map[string]entry `json:"auths"`
	}
	err := json.Unmarshal(text, &file)
	return file.Auths, err
}

func parse(s *v1.Secret) ([]entry, error) {
	var m map[string]entry
	switch s.Type {
	case v1.SecretTypeDockerConfigJson:
		var err error
		if m, err = dockerConfig(s.Data[v1.DockerConfigJsonKey]); err != nil {
			return nil, fmt.Errorf("%s: %w", v1.DockerConfigJsonKey, err)
		}
	case v1.SecretTypeDockercfg:
		if err := json.Unmarshal(s.Data[v1.DockerConfigKey], &m); err != nil {
			return nil, fmt.Errorf("%s: %w", v1.DockerConfigKey, err)
		}
	default:
		return nil, fmt.Errorf("type %q holds no registry credentials, want %s or %s", s.Type,
			v1.SecretTypeDockerConfigJson, v1.SecretTypeDockercfg)
	}
	coordinates := &kubelet.ImagePullSecret{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name}
	return read(m, Origin{Name: s.Namespace + "/" + s.Name, Secret: coordinates})
}

func read(m map[string]entry, from Origin) ([]entry, error) {
	out := make([]entry, 0, len(m))
	for key, e := range m {
		e.key, e.origin = key, from
		if err := e.read(); err != nil {
			return nil, fmt.Errorf("registry %q: %w", key, err)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}

// read fills in user and password from auth, and host and path from the key:
// [scheme://]host[:port][/path].
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

// matches: equal host (with * for one part of the name, as in *.example.com), equal port, and a
// path that is a leading part of the repository.
func (e *entry) matches(host, repo string) bool {
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
