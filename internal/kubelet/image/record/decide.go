package record

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/image"
)

// Policy says for which images a Pod has to prove its right.
type Policy struct {
	Verify kubelet.ImagePullCredentialsVerificationPolicy // empty is NeverVerify
	Allow  []string                                       // preloadedImagesVerificationAllowlist
}

// Demands tells whether the right to an image has to be proven. ours: the kubelet pulled it.
func (p Policy) Demands(name string, ours bool) bool {
	switch p.Verify {
	case kubelet.NeverVerifyPreloadedImages:
		return ours
	case kubelet.NeverVerifyAllowlistedImages:
		return ours || !allowed(p.Allow, bare(name))
	case kubelet.AlwaysVerify:
		return true
	}
	return false
}

// Check tells what is wrong with the allowlist's patterns.
func (p Policy) Check() error {
	for _, pattern := range p.Allow {
		plain, wild := strings.CutSuffix(pattern, "/*")
		switch {
		case pattern == "":
			return fmt.Errorf("invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: the supplied pattern is empty: %q", pattern)
		case strings.Contains(plain, "*"):
			return fmt.Errorf("invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: wildcards are only allowed as the final path segment \"/*\": %q", pattern)
		case !wild && bare(plain) != plain && tagged(plain):
			return fmt.Errorf("invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: image pattern must not have a tag or digest: %q", pattern)
		}
	}
	return nil
}

func tagged(name string) bool {
	named, err := reference.ParseNormalizedNamed(name)
	return err == nil && !reference.IsNameOnly(named)
}

func allowed(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "/*"); ok {
			return strings.HasPrefix(name, bareHost(prefix)+"/")
		}
		return bare(p) == name
	})
}

// bare is a name with registry and path, without tag and digest.
func bare(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return named.Name()
}

// bareHost completes the beginning of a name, which may be a registry alone.
func bareHost(prefix string) string {
	if first, _, _ := strings.Cut(prefix, "/"); strings.ContainsAny(first, ".:") || first == "localhost" {
		return prefix
	}
	return bare(prefix)
}

// Grants tells whether a record lets a Pod with these credentials use the image under this name.
func Grants(r *kubelet.ImagePulledRecord, name string, has []image.Credential) bool {
	if r == nil {
		return false
	}
	known, ok := r.CredentialMapping[bare(name)]
	if !ok {
		return false
	}
	if known.NodePodsAccessible {
		return true
	}
	return slices.ContainsFunc(has, func(c image.Credential) bool {
		switch {
		case c.From.Secret != nil:
			hash := Hash(c)
			return slices.ContainsFunc(known.KubernetesSecrets, func(s kubelet.ImagePullSecret) bool {
				// The same secret, changed or not; or another one with the same content.
				return s.CredentialHash == hash || s.UID == c.From.Secret.UID && s.Namespace == c.From.Secret.Namespace && s.Name == c.From.Secret.Name
			})
		case c.From.ServiceAccount != nil:
			return slices.Contains(known.KubernetesServiceAccounts, *c.From.ServiceAccount)
		}
		return false
	})
}

// Hash tells credentials apart without telling them.
func Hash(c image.Credential) string {
	raw, err := json.Marshal(map[string]string{
		"username": c.Auth.GetUsername(), "password": c.Auth.GetPassword(), "auth": c.Auth.GetAuth(), "identityToken": c.Auth.GetIdentityToken(), "registryToken": c.Auth.GetRegistryToken(),
	})
	if err != nil {
		return "" // strings marshal
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// With adds what an image was pulled with to its record; without credentials, or with the node's own, every Pod may use it.
func With(r kubelet.ImagePulledRecord, name string, used *image.Credential) kubelet.ImagePulledRecord {
	out := *r.DeepCopy()
	if out.CredentialMapping == nil {
		out.CredentialMapping = map[string]kubelet.ImagePullCredentials{}
	}
	have := out.CredentialMapping[bare(name)]
	switch {
	case have.NodePodsAccessible:
	case used == nil || used.From.NodeWide():
		have = kubelet.ImagePullCredentials{NodePodsAccessible: true}
	case used.From.Secret != nil:
		s := *used.From.Secret
		s.CredentialHash = Hash(*used)
		have.KubernetesSecrets = slices.DeleteFunc(have.KubernetesSecrets, func(o kubelet.ImagePullSecret) bool {
			return o.UID == s.UID && o.Namespace == s.Namespace && o.Name == s.Name
		})
		have.KubernetesSecrets = append(have.KubernetesSecrets, s)
	case !slices.Contains(have.KubernetesServiceAccounts, *used.From.ServiceAccount):
		have.KubernetesServiceAccounts = append(have.KubernetesServiceAccounts, *used.From.ServiceAccount)
	}
	out.CredentialMapping[bare(name)] = have
	return out
}
