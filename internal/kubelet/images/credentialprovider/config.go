package credentialprovider

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	config "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/config/v1alpha1"
	"k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// Files say which plugins there are. Both fields or none are set.
type Files struct {
	// --image-credential-provider-config: a CredentialProviderConfig, or a directory of them
	// (.yaml, .yml, .json) in lexical order
	File string
	Dir  string // --image-credential-provider-bin-dir: the programs, named as the providers
}

// apiVersions are the versions of the exec protocol.
func apiVersions() []string {
	return []string{"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1alpha1",
		"credentialprovider.kubelet.k8s.io/v1beta1"}
}

// read reads and checks the providers. The hash is upstream's: of each file's length, eight bytes
// in network order, and text.
func (f Files) read() (all []config.CredentialProvider, hash string, err error) {
	switch {
	case f.File == "" && f.Dir == "":
		return nil, "", nil
	case f.File == "" || f.Dir == "":
		return nil, "", errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir go " +
			"together: one is missing")
	}
	paths, err := f.paths()
	if err != nil {
		return nil, "", err
	}
	digest := sha256.New()
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			return nil, "", fmt.Errorf("unable to read external registry credential provider configuration from %q: "+
				"%w", p, err)
		}
		_, _ = digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(raw)))) // never fails
		_, _ = digest.Write(raw)
		c, err := decode(raw)
		if err != nil {
			return nil, "", fmt.Errorf("error decoding config %q: %w", p, err)
		}
		all = append(all, c.Providers...)
	}
	if errs := validate(all); len(errs) > 0 {
		return nil, "", fmt.Errorf("failed to validate credential provider config: %w", errs.ToAggregate())
	}
	for _, p := range all {
		if info, err := os.Stat(filepath.Join(f.Dir, p.Name)); err != nil || info.IsDir() {
			return nil, "", fmt.Errorf("plugin binary executable %s did not exist", filepath.Join(f.Dir, p.Name))
		}
	}
	return all, fmt.Sprintf("sha256:%x", digest.Sum(nil)), nil
}

func (f Files) paths() ([]string, error) {
	info, err := os.Stat(f.File)
	if err != nil {
		return nil, fmt.Errorf("unable to access path %q: %w", f.File, err)
	}
	if !info.IsDir() {
		return []string{f.File}, nil
	}
	entries, err := os.ReadDir(f.File) // sorted by name
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			out = append(out, filepath.Join(f.File, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no configuration files found in directory %q", f.File)
	}
	return out, nil
}

func decode(raw []byte) (*config.CredentialProviderConfig, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{config.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, gvk, err := codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	if gvk.Kind != "CredentialProviderConfig" {
		return nil, fmt.Errorf("failed to decode %q (wrong Kind)", gvk.Kind)
	}
	// The older versions are v1 with fewer fields.
	plain, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	c := &config.CredentialProviderConfig{}
	return c, json.Unmarshal(plain, c)
}

func validate(all []config.CredentialProvider) field.ErrorList {
	var errs field.ErrorList
	root := field.NewPath("providers")
	if len(all) == 0 {
		return append(errs, field.Required(root, "at least 1 item in plugins is required"))
	}
	seen := map[string]bool{}
	for i := range all {
		p, at := &all[i], root.Index(i)
		errs = append(errs, validateName(p.Name, at.Child("name"))...)
		if seen[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		seen[p.Name] = true
		switch {
		case p.APIVersion == "":
			errs = append(errs, field.Required(at.Child("apiVersion"), ""))
		case !slices.Contains(apiVersions(), p.APIVersion):
			errs = append(errs, field.NotSupported(at.Child("apiVersion"), p.APIVersion, apiVersions()))
		}
		if len(p.MatchImages) == 0 {
			errs = append(errs, field.Required(at.Child("matchImages"), "at least 1 item in matchImages is required"))
		}
		for j, m := range p.MatchImages {
			if _, err := images.Matches(m, "example.com/a"); err != nil {
				errs = append(errs, field.Invalid(at.Child("matchImages").Index(j), m,
					fmt.Sprintf("match image is invalid: %s", err)))
			}
		}
		switch d := p.DefaultCacheDuration; {
		case d == nil:
			errs = append(errs, field.Required(at.Child("defaultCacheDuration"), ""))
		case d.Duration < 0:
			errs = append(errs, field.Invalid(at.Child("defaultCacheDuration"), d.Duration,
				"must be greater than or equal to 0"))
		}
		if p.TokenAttributes != nil {
			errs = append(errs, validateTokenAttributes(p, at.Child("tokenAttributes"))...)
		}
	}
	return errs
}

func validateName(n string, at *field.Path) field.ErrorList {
	switch {
	case n == "":
		return field.ErrorList{field.Required(at, "")}
	case strings.Contains(n, " "):
		return field.ErrorList{field.Invalid(at, n, "provider name cannot contain spaces")}
	case n == ".":
		return field.ErrorList{field.Invalid(at, n, "provider name cannot be '.'")}
	case n == "..":
		return field.ErrorList{field.Invalid(at, n, "provider name cannot be '..'")}
	case strings.ContainsAny(n, "/\\"):
		return field.ErrorList{field.Invalid(at, n, "provider name cannot contain path separators")}
	}
	return nil
}

func validateTokenAttributes(p *config.CredentialProvider, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	t := p.TokenAttributes
	if p.APIVersion != apiVersions()[0] {
		errs = append(errs,
			field.Forbidden(at, fmt.Sprintf("tokenAttributes is only supported for %s API version", apiVersions()[0])))
	}
	if t.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(at.Child("serviceAccountTokenAudience"), ""))
	}
	switch t.CacheType {
	case config.ServiceAccountServiceAccountTokenCacheType, config.TokenServiceAccountTokenCacheType:
	case "":
		errs = append(errs, field.Required(at.Child("cacheType"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("cacheType"), t.CacheType,
			[]config.ServiceAccountTokenCacheType{config.ServiceAccountServiceAccountTokenCacheType,
				config.TokenServiceAccountTokenCacheType}))
	}
	if t.RequireServiceAccount == nil {
		errs = append(errs, field.Required(at.Child("requireServiceAccount"), ""))
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		errs = append(errs, field.Forbidden(at.Child("requiredServiceAccountAnnotationKeys"),
			"requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"))
	}
	seen := map[string]bool{}
	for _, list := range []struct {
		name string
		keys []string
	}{{"requiredServiceAccountAnnotationKeys", t.RequiredServiceAccountAnnotationKeys},
		{"optionalServiceAccountAnnotationKeys", t.OptionalServiceAccountAnnotationKeys}} {
		for i, k := range list.keys {
			for _, bad := range validation.IsQualifiedName(strings.ToLower(k)) {
				errs = append(errs, field.Invalid(at.Child(list.name).Index(i), k, bad))
			}
			if seen[k] {
				errs = append(errs, field.Duplicate(at.Child(list.name).Index(i), k))
			}
			seen[k] = true
		}
	}
	return errs
}
