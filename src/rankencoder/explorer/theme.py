"""Gradio's parts in the colours and letters of the report."""

from __future__ import annotations

import gradio as gr

_FONT = ["system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Noto Sans", "Liberation Sans", "sans-serif"]
_MONO = ["ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace"]
_LIGHT = {
    "body_background_fill": "#ffffff",
    "background_fill_primary": "#ffffff",
    "background_fill_secondary": "#f5f7f9",
    "body_text_color": "#16202a",
    "body_text_color_subdued": "#51606f",
    "block_background_fill": "#ffffff",
    "block_label_text_color": "#16202a",
    "block_title_text_color": "#16202a",
    "block_info_text_color": "#51606f",
    "border_color_primary": "#dbe1e7",
    "block_border_color": "#dbe1e7",
    "input_background_fill": "#f5f7f9",
    "input_border_color": "#8796a5",
    "input_placeholder_color": "#51606f",
    "slider_color": "#007a5a",
    "color_accent": "#0072b2",
    "color_accent_soft": "#e2eff7",
    "button_secondary_background_fill": "#f5f7f9",
    "button_secondary_background_fill_hover": "#e8edf2",
    "button_secondary_text_color": "#16202a",
    "button_secondary_border_color": "#8796a5",
    "checkbox_label_background_fill": "#f5f7f9",
    "checkbox_label_background_fill_selected": "#e2eff7",
    "checkbox_label_text_color": "#16202a",
    "checkbox_label_text_color_selected": "#16202a",
    "checkbox_background_color_selected": "#0072b2",
    "checkbox_border_color_selected": "#0072b2",
    "link_text_color": "#005a92",
}
_DARK = {
    "body_background_fill": "#12181f",
    "background_fill_primary": "#12181f",
    "background_fill_secondary": "#1b232c",
    "body_text_color": "#e8edf2",
    "body_text_color_subdued": "#a5b3c0",
    "block_background_fill": "#12181f",
    "block_label_text_color": "#e8edf2",
    "block_title_text_color": "#e8edf2",
    "block_info_text_color": "#a5b3c0",
    "border_color_primary": "#33404c",
    "block_border_color": "#33404c",
    "input_background_fill": "#1b232c",
    "input_border_color": "#6b7a88",
    "input_placeholder_color": "#a5b3c0",
    "slider_color": "#2fc69b",
    "color_accent_soft": "#1d3a4d",
    "button_secondary_background_fill": "#1b232c",
    "button_secondary_background_fill_hover": "#26313c",
    "button_secondary_text_color": "#e8edf2",
    "button_secondary_border_color": "#6b7a88",
    "checkbox_label_background_fill": "#1b232c",
    "checkbox_label_background_fill_selected": "#1d3a4d",
    "checkbox_label_text_color": "#e8edf2",
    "checkbox_label_text_color_selected": "#e8edf2",
    "checkbox_background_color_selected": "#56b4e9",
    "checkbox_border_color_selected": "#56b4e9",
    "link_text_color": "#7cc4f2",
}
_SHAPE = {
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_padding": "0",
    "input_border_width": "1px",
}


def theme() -> gr.themes.Base:
    """Return the theme: fonts of the reader's own machine, colours of the report, light and dark."""
    base = gr.themes.Base(font=_FONT, font_mono=_MONO, text_size="lg")
    dark = {f"{name}_dark": value for name, value in _DARK.items()}
    return base.set(**_LIGHT, **dark, **_SHAPE)
