// Command ferretdb serves FerretDB (a MongoDB-compatible database) on SQLite over TLS, for tests that want a
// second, independent server behind the official driver.
//
// It prints one line, the address it listens on, when it accepts connections, and ends on SIGTERM, SIGINT, or
// when its standard input is closed, so that it never outlives the test that started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "TLS `address` to listen on")
	certificate := flag.String("certificate", "", "PEM `file` of the server's certificate chain")
	key := flag.String("key", "", "PEM `file` of the server's private key")
	state := flag.String("state", "", "existing `directory` of the SQLite files")
	flag.Parse()
	if *certificate == "" || *key == "" || *state == "" {
		return errors.New("--certificate, --key and --state are required")
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	directory, err := filepath.Abs(*state)
	if err != nil {
		return fmt.Errorf("--state %s: %w", *state, err)
	}

	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{
			TLS:         *listen,
			TLSCertFile: *certificate,
			TLSKeyFile:  *key,
		},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: "file:" + directory + "/",
	})
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		// Nothing is ever written to it: reading ends when whoever holds the other end is gone.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()

	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()

	// Waits until the listener is up.
	uri, err := url.Parse(server.MongoDBURI())
	if err != nil {
		return err
	}
	fmt.Println(uri.Host)
	return <-done
}
