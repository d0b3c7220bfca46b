package credentialprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	config "k8s.io/kubelet/config/v1"
	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// execTimeout is how long a plugin may take, as upstream.
const execTimeout = time.Minute

// maxResponse bounds what is read of a plugin's answer, in bytes.
const maxResponse = 1 << 20

// run asks a plugin once. Its messages on standard error are part of the error.
func run(ctx context.Context, dir string, p *config.CredentialProvider,
	request protocol.CredentialProviderRequest) (*protocol.CredentialProviderResponse, error) {
	request.APIVersion, request.Kind = p.APIVersion, "CredentialProviderRequest"
	in, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, p.Name), p.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), limitedBuffer{&out, maxResponse},
		limitedBuffer{&stderr, 4096}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", execTimeout)
		}
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w%s", p.Name, request.Image,
			err, quoted(stderr.String()))
	}
	answer := &protocol.CredentialProviderResponse{}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		return nil, fmt.Errorf("error decoding credential provider plugin response from stdout: %s: %w", p.Name, err)
	}
	if answer.Kind != "CredentialProviderResponse" {
		return nil, fmt.Errorf("failed to decode CredentialProviderResponse of %s, unexpected kind: %q", p.Name,
			answer.Kind)
	}
	if answer.APIVersion != p.APIVersion {
		return nil, fmt.Errorf("apiVersion from credential plugin response did not match expected apiVersion:%s, "+
			"actual apiVersion:%s", p.APIVersion, answer.APIVersion)
	}
	switch answer.CacheKeyType {
	case protocol.ImagePluginCacheKeyType, protocol.RegistryPluginCacheKeyType, protocol.GlobalPluginCacheKeyType:
	default:
		return nil, fmt.Errorf("credential provider plugin %s did not return a valid cacheKeyType: %q", p.Name,
			answer.CacheKeyType)
	}
	return answer, nil
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", text)
}

// limitedBuffer keeps the first bytes and swallows the rest.
type limitedBuffer struct {
	to  *bytes.Buffer
	max int
}

func (l limitedBuffer) Write(b []byte) (int, error) {
	if room := l.max - l.to.Len(); room > 0 {
		if _, err := io.Copy(l.to, io.LimitReader(bytes.NewReader(b), int64(room))); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
